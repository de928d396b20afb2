// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
)

// TestBenchExitCode: the exit codes that tell how a benchmark ended hide no failure.
func TestBenchExitCode(t *testing.T) {
	failure := errors.New("no space left on device")
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"to its end", withFailure(nil, nil), exitOK},
		{"no round counts", errNoRoundCounts, exitNoRoundCounts},
		{"interrupted", withFailure(errInterrupted, nil), exitInterrupted},
		{"a failure", withFailure(nil, failure), exitFailed},
		{"interrupted, and a failure", withFailure(errInterrupted, failure), exitFailed},
		{"interrupted, and two failures", withFailure(withFailure(errInterrupted, failure), failure), exitFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := exitCode(tt.err); got != tt.want {
				t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
			}
			if errors.Is(tt.err, failure) && !strings.Contains(tt.err.Error(), failure.Error()) {
				t.Errorf("%q does not tell the failure", tt.err)
			}
		})
	}
}

// TestBenchReason: what a signal has stopped is interrupted, and tells what it has left.
func TestBenchReason(t *testing.T) {
	left := &environment.LeftBehindError{RunID: "0a1b2c3d", Err: errors.New("gone"), Command: "kubectl berth bench clean"}
	other := errors.New("context canceled")
	signals := watchSignals(t.Context(), t.Output())
	if err := signals.reason(other); !errors.Is(err, other) {
		t.Errorf("without a signal: %v, want %v", err, other)
	}
	signals.end()
	if err := signals.reason(nil); err != nil {
		t.Errorf("after success: %v", err)
	}
	if err := signals.reason(other); !errors.Is(err, errInterrupted) || errors.Is(err, other) {
		t.Errorf("after a signal: %v, want %v alone", err, errInterrupted)
	}
	err := signals.reason(errors.Join(other, left))
	if code, _ := exitCode(err); code != exitFailed || !strings.Contains(err.Error(), errInterrupted.Error()) || !strings.Contains(err.Error(), left.Command) {
		t.Errorf("with something left: %v, exit code %d; want both told, and %d", err, code, exitFailed)
	}
}

// TestBenchRights: only who binds pods in this process must be allowed to.
func TestBenchRights(t *testing.T) {
	o := &benchOptions{specs: []*schedulers.Spec{{Name: "default-scheduler"}}}
	if got := o.rights("n"); len(got) > 0 {
		t.Errorf("without bare-binder: %+v, want none", got)
	}
	o.specs = append(o.specs, &schedulers.Spec{Name: schedulers.BareBinderName})
	if got := o.rights("n"); len(got) != 1 || got[0].Verb != "create" || got[0].Resource != "pods" || got[0].Subresource != "binding" || got[0].Namespace != "n" {
		t.Errorf("with bare-binder: %+v, want to create bindings in n", got)
	}
}

// TestClusterFlags: a shell reads what was typed.
func TestClusterFlags(t *testing.T) {
	o := &benchOptions{kubeconfig: "my cluster", kubecontext: "a b"}
	if got, want := strings.Join(o.clusterFlags(), " "), "--kubeconfig 'my cluster' --context 'a b'"; got != want {
		t.Errorf("clusterFlags() = %s, want %s", got, want)
	}
}
