// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHoldings(t *testing.T) {
	type step struct {
		uid types.UID
		// node and requests are held; without a node, the pod's are released.
		node     string
		requests corev1.ResourceList
		// want is what the call reports.
		want bool
	}
	tests := []struct {
		name  string
		fit   Fit
		steps []step
		// used is what is left at the end, by node.
		used map[string]corev1.ResourceList
	}{
		{
			name: "pods of a node add up",
			steps: []step{
				{uid: "p", node: "a", requests: resources("cpu", "1", "pods", "1")},
				{uid: "q", node: "a", requests: resources("cpu", "500m", "memory", "1Gi", "pods", "1")},
				{uid: "r", node: "b", requests: resources("pods", "1")},
			},
			used: map[string]corev1.ResourceList{"a": resources("cpu", "1500m", "memory", "1Gi", "pods", "2"), "b": resources("pods", "1")},
		},
		{
			name: "the same again changes nothing",
			steps: []step{
				{uid: "p", node: "a", requests: resources("cpu", "1")},
				{uid: "p", node: "a", requests: resources("cpu", "1000m")},
			},
			used: map[string]corev1.ResourceList{"a": resources("cpu", "1")},
		},
		{
			name: "other requests replace the first",
			steps: []step{
				{uid: "p", node: "a", requests: resources("cpu", "2", "memory", "1Gi")},
				{uid: "p", node: "a", requests: resources("cpu", "1"), want: true},
			},
			used: map[string]corev1.ResourceList{"a": resources("cpu", "1")},
		},
		{
			name: "a pod is on one node",
			steps: []step{
				{uid: "p", node: "a", requests: resources("cpu", "1")},
				{uid: "p", node: "b", requests: resources("cpu", "1"), want: true},
			},
			used: map[string]corev1.ResourceList{"b": resources("cpu", "1")},
		},
		{
			name: "what is released is gone, once",
			steps: []step{
				{uid: "p", node: "a", requests: resources("cpu", "1")},
				{uid: "q", node: "a", requests: resources("cpu", "2")},
				{uid: "p", want: true},
				{uid: "p"},
			},
			used: map[string]corev1.ResourceList{"a": resources("cpu", "2")},
		},
		{
			name: "an empty node is forgotten",
			steps: []step{
				{uid: "p", node: "a", requests: resources("cpu", "1", "pods", "1")},
				{uid: "p", want: true},
			},
			used: map[string]corev1.ResourceList{},
		},
		{
			name:  "nothing counts unless resources do",
			fit:   FitConstraints,
			steps: []step{{uid: "p", node: "a", requests: resources("cpu", "1")}, {uid: "p"}},
			used:  map[string]corev1.ResourceList{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fit := tt.fit
			if fit == "" {
				fit = FitResources
			}
			h := newHoldings(fit)
			for i, s := range tt.steps {
				var got bool
				if s.node == "" {
					got = h.release(s.uid)
				} else {
					got = h.hold(s.uid, s.node, s.requests)
				}
				if got != s.want {
					t.Errorf("step %d reports %v, want %v", i, got, s.want)
				}
			}
			if diff := cmp.Diff(tt.used, h.nodes); diff != "" {
				t.Errorf("what is held (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestRequestsOfAPod(t *testing.T) {
	pod := pendingPodObject("p", withRequests("cpu", "1"), func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "3")}}}
		p.Spec.Overhead = resources("memory", "64Mi")
	})
	want := resources("cpu", "3", "memory", "64Mi", "pods", "1")
	if diff := cmp.Diff(want, newHoldings(FitResources).requests(pod)); diff != "" {
		t.Errorf("requests (-want,+got):\n%s", diff)
	}
	if got := newHoldings(FitNone).requests(pod); got != nil {
		t.Errorf("requests that nobody looks at: %v", got)
	}
}
