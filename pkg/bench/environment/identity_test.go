// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const testID = "0a1b2c3d"

func newTestEnvironment(exclusive bool) *Environment {
	return &Environment{runID: testID, namespace: namespaceOf(testID), uid: "namespace-uid", exclusive: exclusive}
}

func TestRunID(t *testing.T) {
	if err := ValidateRunID(NewRunID()); err != nil {
		t.Errorf("ValidateRunID(NewRunID()) = %v", err)
	}
	if one, other := NewRunID(), NewRunID(); one == other {
		t.Errorf("two runs have the id %s", one)
	}
	for _, id := range []string{"", "0a1b2c3", "0a1b2c3d4", "0A1B2C3D", "0a1b-c3d", "nothexad"} {
		if err := ValidateRunID(id); err == nil {
			t.Errorf("ValidateRunID(%q) = nil, want an error", id)
		}
	}
}

func TestOwnsNamespace(t *testing.T) {
	for _, tt := range []struct {
		name string
		ns   metav1.ObjectMeta
		want bool
	}{
		{"name and label", metav1.ObjectMeta{Name: "berth-bench-0a1b2c3d", Labels: map[string]string{names.BenchLabel: testID}}, true},
		{"name alone", metav1.ObjectMeta{Name: "berth-bench-0a1b2c3d"}, false},
		{"label alone", metav1.ObjectMeta{Name: "mine", Labels: map[string]string{names.BenchLabel: testID}}, false},
		{"two runs", metav1.ObjectMeta{Name: "berth-bench-0a1b2c3d", Labels: map[string]string{names.BenchLabel: "ffffffff"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := newTestEnvironment(false).ownsNamespace(&corev1.Namespace{ObjectMeta: tt.ns}); got != tt.want {
				t.Errorf("ownsNamespace() = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestAdoptNode(t *testing.T) {
	planned := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n0", Labels: map[string]string{
			corev1.LabelHostname: "n0", corev1.LabelOSStable: "linux", "zone": "a",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}},
	}
	before := planned.DeepCopy()
	for _, tt := range []struct {
		name       string
		exclusive  bool
		wantOS     string
		wantTaints []corev1.Taint
	}{
		{"shared cluster", false, "none", []corev1.Taint{
			{Key: "gpu", Effect: corev1.TaintEffectNoSchedule},
			{Key: "berth.dev/bench", Value: testID, Effect: corev1.TaintEffectNoSchedule},
		}},
		{"exclusive cluster", true, "linux", planned.Spec.Taints},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newTestEnvironment(tt.exclusive)
			node, err := e.adoptNode(&planned)
			if err != nil {
				t.Fatal(err)
			}
			if node.Name != "berth-bench-0a1b2c3d-n0" || node.Name != e.NodeName("n0") || !e.OwnsNode(node.Name) || len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != e.uid {
				t.Errorf("the node %s is not the run's", node.Name)
			}
			if got := node.Labels[corev1.LabelHostname]; got != node.Name {
				t.Errorf("%s = %s, want %s", corev1.LabelHostname, got, node.Name)
			}
			if got := node.Labels[corev1.LabelOSStable]; got != tt.wantOS {
				t.Errorf("%s = %s, want %s", corev1.LabelOSStable, got, tt.wantOS)
			}
			if got, want := node.Labels[corev1.LabelNodeExcludeBalancers] == "true", !tt.exclusive; got != want {
				t.Errorf("kept from load balancers: %t, want %t", got, want)
			}
			if node.Labels["zone"] != "a" || node.Annotations["kwok.x-k8s.io/node"] != "fake" {
				t.Errorf("labels %v, annotations %v: want the planned labels and kwok's annotation", node.Labels, node.Annotations)
			}
			if diff := cmp.Diff(tt.wantTaints, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want,+got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(before, &planned); diff != "" {
		t.Errorf("the plan has changed (-before,+now):\n%s", diff)
	}
}

func TestAdoptNodeRefusesLongNames(t *testing.T) {
	planned := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 43)}}
	_, err := newTestEnvironment(false).adoptNode(&planned)
	if err == nil || !strings.Contains(err.Error(), "more than 63 characters") {
		t.Errorf("adoptNode() of a long name = %v, want an error that tells the limit", err)
	}
}

func TestAdoptPod(t *testing.T) {
	planned := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				NodeName:     "n0",
				NodeSelector: map[string]string{corev1.LabelHostname: "n0", corev1.LabelOSStable: "linux", "disk": "ssd"},
				Tolerations:  []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
			},
		}
	}
	want := planned()
	want.Namespace = "berth-bench-0a1b2c3d"
	want.Labels["berth.dev/bench"] = testID
	want.Spec.NodeName = "berth-bench-0a1b2c3d-n0"
	want.Spec.TerminationGracePeriodSeconds = new(int64)
	want.Spec.NodeSelector[corev1.LabelHostname] = "berth-bench-0a1b2c3d-n0"

	got := planned()
	newTestEnvironment(true).Adopt(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on an exclusive cluster (-want,+got):\n%s", diff)
	}

	want.Spec.NodeSelector[corev1.LabelOSStable] = "none"
	want.Spec.NodeSelector["berth.dev/bench"] = testID
	want.Spec.Tolerations = append(want.Spec.Tolerations, corev1.Toleration{
		Key: "berth.dev/bench", Operator: corev1.TolerationOpEqual, Value: testID, Effect: corev1.TaintEffectNoSchedule,
	})
	got = planned()
	newTestEnvironment(false).Adopt(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on a shared cluster (-want,+got):\n%s", diff)
	}

	// No autoscaler has nodes for a pod that selects nothing else either.
	got = &corev1.Pod{}
	newTestEnvironment(false).Adopt(got)
	if diff := cmp.Diff(map[string]string{"berth.dev/bench": testID, corev1.LabelOSStable: "none"}, got.Spec.NodeSelector); diff != "" {
		t.Errorf("nodeSelector on a shared cluster (-want,+got):\n%s", diff)
	}
}

// TestAdoptSharesNothing: the pods of a plan may be shallow copies of one.
func TestAdoptSharesNothing(t *testing.T) {
	tolerations := make([]corev1.Toleration, 0, 4)
	selector := map[string]string{"disk": "ssd"}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: selector, Tolerations: tolerations}}
	newTestEnvironment(false).Adopt(pod)
	if len(selector) != 1 {
		t.Errorf("the plan's nodeSelector is %v now", selector)
	}
	if first := tolerations[:1][0]; first.Key != "" {
		t.Errorf("the plan's tolerations have %v behind their end now", first)
	}
}
