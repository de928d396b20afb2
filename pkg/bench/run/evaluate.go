// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/bench/report"
)

const (
	mebibyte = 1 << 20
	// maxReasons is how many reasons a round tells; the others are counted together.
	maxReasons = 20
	// notTried and otherReasons stand for reasons.
	notTried     = "not yet tried by the scheduler"
	otherReasons = "other reasons"
)

// evaluate makes a result of what was recorded. seen gets what it lacks.
func (r *round) evaluate(seen *observation, used usage) *report.Round {
	records, losses := r.recorder.result()
	arrived := records[:len(r.creator.pods)]
	result := &report.Round{
		StartSeconds: r.start.Sub(r.begin).Seconds(),
		TargetRate:   r.rate,
		Metrics:      map[string]float64{},
	}
	var bound []time.Duration
	var latencies, lags []float64
	for i := range arrived {
		record := &arrived[i]
		if !record.seen.IsZero() && !r.creator.answered[i].IsZero() {
			lags = append(lags, max(0, record.seen.Sub(r.creator.answered[i]).Seconds()))
		}
		if !record.bound.IsZero() {
			bound = append(bound, record.bound.Sub(r.start))
			latencies = append(latencies, max(0, milliseconds(record.bound.Sub(r.creator.sent[i]))))
		}
	}
	result.BoundPerSecond = perSecond(bound)
	if len(bound) > 0 {
		duration := slices.Max(bound)
		seen.duration, result.DurationSeconds = duration, duration.Seconds()
		seen.throughput = float64(len(bound)) / duration.Seconds()
		result.Metrics[report.Throughput] = seen.throughput
		result.LatencyMillis = percentiles(latencies)
		result.Metrics[report.LatencyP50] = result.LatencyMillis[50]
		result.Metrics[report.LatencyP90] = result.LatencyMillis[90]
		result.Metrics[report.LatencyP99] = result.LatencyMillis[99]
		r.costs(result.Metrics, used, float64(len(bound)))
	}
	result.Metrics[report.Unplaced] = float64(len(arrived) - len(bound))
	result.Reasons = reasons(arrived)

	seen.bound, seen.planned, seen.losses = len(bound), len(arrived), losses
	seen.paced, seen.lateness = r.creator.at != nil, r.creator.lateness(r.start)
	seen.lag, seen.endLag = highest(lags), highest(lags[len(lags)*9/10:])
	if r.timedOut {
		seen.timeout = r.options.RoundTimeout
		seen.left = r.last.planned - r.last.bound - r.last.lost - r.last.refused
	}
	if used.before != nil {
		seen.schedulerRequests = used.after.Requests - used.before.Requests
		seen.schedulerDelayed = used.after.Delayed - used.before.Delayed
	}
	result.Invalid, result.Inexact = seen.invalid(), seen.inexact()
	if !r.spec.Bare() {
		end := r.finalState(records)
		if err := end.quality(result.Metrics); err != nil {
			result.Invalid = append(result.Invalid, err.Error())
			r.wrong = append(r.wrong, fmt.Errorf("%s: %w", r.title, err))
		}
	}
	return result
}

// highest returns the 99th percentile of numbers of seconds, 0 if there are none.
func highest(seconds []float64) time.Duration {
	if len(seconds) == 0 {
		return 0
	}
	return time.Duration(percentiles(seconds)[99] * float64(time.Second))
}

// costs adds what the scheduler used, as far as it can be seen: not what it has
// written if it was still writing, or if it is not known how much of that was its
// lease.
func (r *round) costs(metrics map[string]float64, used usage, bound float64) {
	if used.before == nil {
		return
	}
	if used.rested && (r.renewals == nil || !r.renewals.lost.Load()) {
		metrics[report.WritesPerPod] = max(0, used.after.Writes-used.before.Writes-float64(used.renewed)) / bound
	}
	if used.after.Shared {
		return
	}
	metrics[report.CPUMillisPerPod] = 1000 * (used.after.CPUSeconds - used.before.CPUSeconds) / bound
	metrics[report.MemoryMiB] = max(used.before.MemoryBytes, used.after.MemoryBytes) / mebibyte
}

// finalState is how the pods lie now.
func (r *round) finalState(records []record) *finalState {
	end := &finalState{plan: r.plan, mix: r.mix, namespace: r.options.Environment.Namespace(), nodes: map[string]*corev1.Node{}}
	for i := range r.plan.Nodes {
		node := r.plan.Nodes[i].DeepCopy()
		node.Name = r.options.Environment.NodeName(node.Name)
		end.nodes[node.Name] = node
	}
	for i := range records {
		record := &records[i]
		if record.bound.IsZero() {
			continue
		}
		if !record.gone {
			end.pods = append(end.pods, record.pod)
		}
		if i < len(r.creator.pods) {
			end.placed = append(end.placed, record.pod)
		}
	}
	return end
}

// withoutTail cuts off what kube-scheduler says behind the reasons: what its plugins
// that make room, by resource claims and by preemption, came to.
func withoutTail(message string) string {
	why, _, _ := strings.Cut(message, " preemption: ")
	why = strings.TrimSuffix(strings.TrimSpace(why), ",")
	for _, tail := range []string{"no new claims to deallocate", "still not schedulable"} {
		why = strings.TrimSpace(strings.TrimSuffix(why, tail))
	}
	return why
}

// reasons counts the pods without a node by what the scheduler said last.
func reasons(records []record) map[string]int {
	counted := map[string]int{}
	for i := range records {
		record := &records[i]
		if !record.bound.IsZero() || record.gone || record.pod == nil {
			continue
		}
		why := notTried
		if condition := refusal(record.pod); condition != nil {
			why = cmp.Or(withoutTail(condition.Message), condition.Reason)
		}
		counted[why]++
	}
	if len(counted) <= maxReasons {
		return counted
	}
	type reason struct {
		text  string
		count int
	}
	var sorted []reason
	for text, count := range counted {
		sorted = append(sorted, reason{text, count})
	}
	slices.SortFunc(sorted, func(a, b reason) int { return cmp.Or(b.count-a.count, strings.Compare(a.text, b.text)) })
	few := map[string]int{}
	for i, reason := range sorted {
		if i < maxReasons {
			few[reason.text] = reason.count
		} else {
			few[otherReasons] += reason.count
		}
	}
	return few
}
