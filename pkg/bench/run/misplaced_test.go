// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRecorderFindsPodsMisplaced: the first pod on a node that is not the benchmark's is
// told while the round runs.
func TestRecorderFindsPodsMisplaced(t *testing.T) {
	r := newRecorder([]string{"a", "b", "c", "d"})
	misplaced := map[string]error{"n2": errors.New("n2 is not mine"), "n3": errors.New("n3 is not mine")}
	r.check = func(pod *corev1.Pod) error { return misplaced[pod.Spec.NodeName] }
	for _, step := range []struct {
		pod  *corev1.Pod
		want error
	}{
		{podOn("a", "", false), nil},
		{podOn("a", "n1", false), nil},
		{podOn("probe", "n2", false), nil},
		{podOn("b", "n2", false), misplaced["n2"]},
		{podOn("c", "n3", false), misplaced["n2"]},
		{podOn("d", "n1", false), misplaced["n2"]},
	} {
		if err := r.Update(step.pod); err != nil {
			t.Fatal(err)
		}
		if got := r.misplaced(); !errors.Is(got, step.want) {
			t.Errorf("with %s on %q: %v, want %v", step.pod.Name, step.pod.Spec.NodeName, got, step.want)
		}
	}
}
