// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	benchrun "github.com/berth-scheduler/berth/pkg/bench/run"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/pkg/version"
)

// errInterrupted ends a benchmark that was asked to stop.
var errInterrupted = errors.New("interrupted")

// errNoRoundCounts is no failure: everything was measured, but proves little.
var errNoRoundCounts = errors.New("no round of some scheduler counts: the report says why")

// runBench does it all. What is asked for is written to out, and what happens
// meanwhile to status.
func runBench(ctx context.Context, o *benchOptions, out, status io.Writer) (err error) {
	outDir, err := prepareOutDir(o.outDir)
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
	r, err := measure(signals, o, outDir, status)
	if r == nil {
		return err
	}
	// Only now: whoever reads it may take their time, or have gone.
	if printErr := printReport(out, r, o.output); printErr != nil {
		return withFailure(err, printErr)
	}
	if err == nil && !r.AllCount() {
		return errNoRoundCounts
	}
	return err
}

// measure opens the place, runs the rounds, writes the files of --out and removes
// everything. The report is nil if too little was measured for one.
func measure(signals *benchSignals, o *benchOptions, outDir *outputFolder, status io.Writer) (r *report.Report, err error) {
	progress := newProgress(status)
	defer progress.end()
	machine := report.DescribeMachine() // before anything makes it busy
	if busy := machine.BusyWarning(); busy != "" {
		fmt.Fprintf(status, "%s: WARNING: %s\n", program, busy)
	}
	place, err := openBenchPlace(signals, o, progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = withFailure(err, place.close(signals)) }() // also if something panics
	experiment, err := benchrun.New(benchrun.Options{
		Plan:         func(format workload.RequestFormat) (*workload.Plan, error) { return o.plans[format], nil },
		Schedulers:   o.specs,
		Rounds:       o.rounds,
		SteadyRounds: o.steadyRounds,
		RoundTimeout: o.workload.Spec.RoundTimeout.Duration,
		Limit:        o.limit(),
		Config:       place.config,
		Environment:  place.environment,
		Launcher:     place.launcher,
		Progress:     progress,
	})
	if err != nil {
		return nil, err
	}
	runErr := place.probeAll(signals.ctx, o, progress)
	if runErr == nil {
		runErr = place.watch(signals.ctx, experiment.Run)
	}
	progress.end()
	runErr = signals.reason(runErr)
	if experiment.FullRounds() == 0 {
		return nil, runErr
	}
	r = o.report(experiment, machine, place, place.version())
	if runErr != nil {
		for i := range r.Schedulers {
			r.Schedulers[i].Notes = append(r.Schedulers[i].Notes, fmt.Sprintf("The benchmark is incomplete: %d of %d rounds finished.", experiment.FullRounds(), o.rounds))
		}
		fmt.Fprintf(status, "%s: reporting the %d complete rounds\n", program, experiment.FullRounds())
	}
	r.Summarise()
	// What was measured is safe before anything else can go wrong.
	return r, withFailure(runErr, outDir.writeFiles(r))
}

// withFailure joins a failure to how something ended. To be interrupted is no failure,
// so that where there is one too, the exit code is the failure's.
func withFailure(end, failure error) error {
	if failure != nil && errors.Is(end, errInterrupted) {
		return fmt.Errorf("%v: %w", end, failure) //nolint:errorlint // hides it, see above
	}
	return errors.Join(end, failure)
}

// limit is that of every client.
func (o *benchOptions) limit() schedulers.Limit {
	return schedulers.Limit{QPS: o.workload.Spec.ClientQPS, Burst: max(1, int(o.workload.Spec.ClientQPS))}
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

var _ benchrun.Environment = &environment.Environment{}
