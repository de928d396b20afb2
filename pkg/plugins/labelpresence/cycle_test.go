// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func newCycleState() fwk.CycleState {
	return framework.NewCycleState()
}

// newCycle starts a scheduling cycle: it runs PreFilter and returns the state.
func newCycle(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) fwk.CycleState {
	tb.Helper()
	state := newCycleState()
	if _, status, _ := profile.RunPreFilterPlugins(tb.Context(), state, pod); !status.IsSuccess() {
		tb.Fatalf("PreFilter: %v", status)
	}
	return state
}
