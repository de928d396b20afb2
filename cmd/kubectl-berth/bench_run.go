// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	benchcontender "github.com/berth-scheduler/berth/pkg/bench/contender"
	"github.com/berth-scheduler/berth/pkg/bench/ground"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	benchrun "github.com/berth-scheduler/berth/pkg/bench/run"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/pkg/version"
)

// errInterrupted ends a benchmark that was told to stop.
var errInterrupted = errors.New("interrupted")

// errNoRoundCounts is no failure: everything was measured, and says little.
var errNoRoundCounts = errors.New("none of a scheduler's rounds counts: the report says why")

// runBench does it all. What is asked for is written to out, and what happens
// meanwhile to status.
func runBench(ctx context.Context, o *benchOptions, out, status io.Writer) (err error) {
	outDir, err := prepareBenchOutDir(o.outDir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			outDir.removeIfNew()
		}
	}()
	signals := watchSignals(ctx, status)
	defer signals.end()
	ctx = signals.ctx
	progress := newBenchProgress(status)

	machine := report.DescribeMachine() // before anything makes it busy
	place, err := openBenchPlace(ctx, o, progress)
	if err != nil {
		progress.end()
		return signals.reason(err)
	}
	experiment, err := benchrun.New(benchrun.Options{
		Plan:         func(dialect workload.Dialect) (*workload.Plan, error) { return o.plans[dialect], nil },
		Contenders:   o.contenders,
		Rounds:       o.rounds,
		SteadyRounds: o.steadyRounds,
		RoundTimeout: o.workload.Spec.RoundTimeout.Duration,
		Limit:        o.limit(),
		Config:       place.config,
		Ground:       place.ground,
		Schedulers:   place.schedulers,
		Progress:     progress,
	})
	var runErr error
	if err == nil {
		if runErr = place.probeAll(ctx, o, progress); runErr == nil {
			runErr = place.watch(ctx, experiment.Run)
		}
	} else {
		runErr = err
	}
	progress.end()
	runErr = signals.reason(runErr)
	kubernetes := place.version(ctx)
	// What was measured is safe before anything else can go wrong.
	if experiment != nil && experiment.FullRounds() > 0 {
		r := o.report(experiment, machine, place, kubernetes)
		if runErr != nil {
			for i := range r.Schedulers {
				r.Schedulers[i].Notes = append(r.Schedulers[i].Notes, fmt.Sprintf("The benchmark did not come to its end: %d of %d rounds are complete.", experiment.FullRounds(), o.rounds))
			}
		}
		r.Summarise()
		writeErr := outDir.write(r, o.output, out)
		if runErr != nil && writeErr == nil {
			fmt.Fprintf(status, "%s: what the %d complete rounds came to is written nevertheless\n", program, experiment.FullRounds())
		}
		if runErr == nil && !everyoneCounts(r) {
			runErr = errNoRoundCounts
		}
		runErr = errors.Join(runErr, writeErr)
	}
	return errors.Join(runErr, place.close(signals, status))
}

// limit is that of every client.
func (o *benchOptions) limit() benchcontender.Limit {
	return benchcontender.Limit{QPS: o.workload.Spec.ClientQPS, Burst: max(1, int(o.workload.Spec.ClientQPS))}
}

// report is what was measured, with what it was measured.
func (o *benchOptions) report(experiment *benchrun.Experiment, machine report.Machine, place *benchPlace, kubernetes string) *report.Report {
	nodes, existing, pods := experiment.Sizes()
	return &report.Report{
		FormatVersion: report.FormatVersion,
		Environment: report.Environment{
			Version:    version.String(),
			Commit:     commitOf(version.String()),
			Date:       experiment.Begin().UTC().Format(time.RFC3339),
			Command:    o.command,
			Machine:    machine,
			Cluster:    place.name,
			Kubernetes: kubernetes,
			ClientQPS:  o.workload.Spec.ClientQPS,
		},
		Workload: report.Workload{
			Name: o.workload.Metadata.Name, Description: o.workload.Spec.Description,
			Path: o.workload.Path, SHA256: o.workload.SHA256,
			Nodes: nodes, Existing: existing, Pods: pods,
		},
		Schedulers: experiment.Results(),
	}
}

// everyoneCounts reports whether each scheduler has a round that counts.
func everyoneCounts(r *report.Report) bool {
	for i := range r.Schedulers {
		if r.Schedulers[i].Summary[report.PhaseAsPlanned] == nil {
			return false
		}
	}
	return true
}

var _ benchrun.Ground = &ground.Ground{}
