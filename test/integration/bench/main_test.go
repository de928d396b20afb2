// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench runs benchmarks against real control planes and real schedulers, and
// holds what they report against what the API server says.
package bench

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/run"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// everyone is all that a benchmark can run on a control plane of its own.
var everyone = []string{corev1.DefaultSchedulerName, names.Scheduler, names.RandomScheduler, schedulers.BareBinderName}

// silent is a run.Progress that tells nobody.
type silent struct{}

func (silent) Step(string)   {}
func (silent) Pods(int, int) {}

func (silent) Rounds(int, int) {}

// bench is a control plane with an environment for benchmarks.
type bench struct {
	*framework.Cluster
	environment *environment.Environment
	local       *schedulers.Local
}

// limit is that of the benchmark's client and of the schedulers.
var limit = schedulers.Limit{QPS: 5000, Burst: 5000}

// start starts a control plane and prepares it.
func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{Cluster: framework.Start(t, framework.Options{Audit: true})}
	var err error
	if b.local, err = schedulers.NewLocal(t.Context(), b.Cluster.Cluster, t.TempDir(), limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.local.Close)
	if b.environment, err = environment.Prepare(t.Context(), b.Config, environment.Options{Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs one round of a workload through a scheduler, and leaves the pods there
// until the test ends.
func (b *bench) run(t *testing.T, file, scheduler string) report.Round {
	t.Helper()
	return b.rounds(t, file, scheduler)[0]
}

// rounds is run for a workload that has several rounds of one number.
func (b *bench) rounds(t *testing.T, file, scheduler string) []report.Round {
	t.Helper()
	w, err := workload.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	profiles := map[string]string{}
	if profile, ok := w.Profile(scheduler); ok {
		profiles[scheduler] = profile
	}
	spec, err := schedulers.Find(t.Context(), scheduler, schedulers.FindOptions{BinDir: binDir(t), Profiles: profiles})
	if err != nil {
		t.Fatal(err)
	}
	experiment, err := run.New(run.Options{
		Plan: w.Plan, Schedulers: []*schedulers.Spec{spec}, Rounds: 1, RoundTimeout: w.Spec.RoundTimeout.Duration,
		Limit: limit, Config: b.Config, Environment: b.environment, Launcher: b.local, Progress: silent{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(b.environment.Reset(ctx), b.environment.DeleteNodes(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := experiment.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return experiment.Results()[0].Rounds
}

// binDir is the folder with the binaries.
func binDir(t *testing.T) string {
	t.Helper()
	return filepath.Dir(framework.Binary(t, framework.BerthLocal))
}

// on returns the resource of a request's object, with its subresource.
func on(e *auditv1.Event) string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// audit returns the requests for objects that the API server has answered.
func (b *bench) audit(t *testing.T) []auditv1.Event {
	t.Helper()
	return b.AuditEvents(t, func(e *auditv1.Event) bool { return e.ObjectRef != nil && e.ResponseStatus != nil })
}
