// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math/rand/v2"
	"time"
)

// Streams of random numbers: each decision has its own, so that one more pod in one
// place does not draw all other numbers anew.
const (
	streamOrder = iota + 1
	streamArrival
	streamLifetime
	streamExisting
)

// random returns the random numbers of a stream.
func (w *writer) random(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(w.spec.Seed), stream))
}

// order brings the arrivals, which are as listed, into the workload's order.
func (w *writer) order() {
	if w.spec.Order == Shuffled {
		pods := w.plan.Arrivals
		w.random(streamOrder).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	}
}

// schedule gives the arrivals their times.
func (w *writer) schedule() {
	rate := w.spec.Arrival.PodsPerSecond
	switch w.spec.Arrival.Type {
	case Burst: // all at once
	case Steady:
		for i := range w.plan.Arrivals {
			w.plan.Arrivals[i].At = seconds(float64(i) / rate)
		}
	case Poisson:
		random, at := w.random(streamArrival), 0.0
		for i := range w.plan.Arrivals {
			w.plan.Arrivals[i].At = seconds(at)
			at += random.ExpFloat64() / rate
		}
	}
}

// lifetime throws how long a pod lives; 0 is for ever.
func lifetime(spec *Lifetime, random *rand.Rand) time.Duration {
	switch {
	case spec == nil:
		return 0
	case spec.Distribution == Fixed:
		return spec.Mean.Duration
	}
	// One in 10^9 of the pods of the longest mean lives longer than a week.
	return max(time.Millisecond, seconds(random.ExpFloat64()*spec.Mean.Seconds()).Round(time.Millisecond))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
