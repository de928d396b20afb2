// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// decided reports whether a scheduler has said yes or no to the pod.
func decided(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" || framework.PodScheduledCondition(pod) != nil
}

// mistakes: what cannot be understood, or cannot have an effect, is said in an
// event at once, and other pods are placed meanwhile.
func mistakes(s *suite) {
	s.addNodes("n0=a")
	s.addService("backend")
	s.addService("wrong") // of which those below are pods
	tests := []struct {
		name    string
		mistake []func(*corev1.Pod)
		// placed is whether the pod gets a node all the same.
		placed       bool
		reason, text string
		// cure is a merge patch that corrects the pod.
		cure string
	}{
		{
			name: "weight-0", mistake: []func(*corev1.Pod){with("backend=0")},
			reason: "FailedScheduling", text: `the weight in "backend=0" must be a whole number from 1 to 100`,
			cure: `{"metadata": {"annotations": {"` + names.ColocateWithAnnotation + `": "backend=1"}}}`,
		},
		{
			name: "weight-101", mistake: []func(*corev1.Pod){with("backend=101")},
			reason: "FailedScheduling", text: `the weight in "backend=101" must be a whole number from 1 to 100`,
			cure: `{"metadata": {"annotations": null}}`,
		},
		{
			name: "list", mistake: []func(*corev1.Pod){with("backend,,Back end")},
			reason: "FailedScheduling", text: `"Back end" names no Service`,
			cure: `{"metadata": {"annotations": null}}`,
		},
		{
			name: "empty", mistake: []func(*corev1.Pod){with("")},
			reason: "FailedScheduling", text: names.ColocateWithAnnotation + " names no Service",
		},
		{
			name: "percent", mistake: []func(*corev1.Pod){with("100%d")},
			reason: "FailedScheduling", text: `"100\x25d" names no Service`,
		},
		{
			name: "level", mistake: []func(*corev1.Pod){with("backend"), annotated(names.ColocateTopologyKeysAnnotation, "zone of mine")},
			reason: "FailedScheduling", text: `"zone of mine" is not a topology key`,
		},
		{
			name: "within-unknown", mistake: []func(*corev1.Pod){with("backend"), within("topology.example.com/rack")},
			reason: "FailedScheduling", text: `no node has the label "topology.example.com/rack"`,
			cure: `{"metadata": {"annotations": {"` + names.ColocateRequiredTopologyKeyAnnotation + `": null}}}`,
		},
		{
			name: "prefer-unknown", mistake: []func(*corev1.Pod){with("backend"), annotated(names.ColocateTopologyKeysAnnotation, "topology.example.com/rack")},
			placed: true, reason: "ColocationIgnored", text: `no node has the label "topology.example.com/rack"`,
		},
		{
			name: "unknown-service", mistake: []func(*corev1.Pod){with("bakcend")},
			placed: true, reason: "ColocationIgnored", text: "Service mistakes/bakcend has no effect",
		},
		{
			name: "required-unknown-service", mistake: []func(*corev1.Pod){with("bakcend"), within("topology.kubernetes.io/zone")},
			reason: "FailedScheduling", text: "Service mistakes/bakcend does not exist",
			cure: `{"metadata": {"annotations": {"` + names.ColocateWithAnnotation + `": "wrong"}}}`,
		},
		{
			name: "former-name", mistake: []func(*corev1.Pod){with("backend"), annotated(names.FormerColocatePreferAnnotation, "topology.kubernetes.io/zone")},
			reason: "FailedScheduling", text: names.FormerColocatePreferAnnotation + " is called " + names.ColocateTopologyKeysAnnotation + " now: rename it",
			cure: `{"metadata": {"annotations": {"` + names.FormerColocatePreferAnnotation + `": null}}}`,
		},
		{
			name: "misspelled", mistake: []func(*corev1.Pod){annotated("berth.dev/colocate-whit", "backend")},
			placed: true, reason: "UnknownBerthKey", text: "berth.dev/colocate-whit",
		},
		{
			name: "alone", mistake: []func(*corev1.Pod){within("topology.kubernetes.io/zone")},
			reason: "FailedScheduling", text: names.ColocateWithAnnotation + ", which is missing",
		},
	}
	for _, tt := range tests {
		s.create(s.pod("wrong-"+tt.name, tt.mistake...))
	}
	// Not one of them is in the way.
	for i := range 3 {
		s.place(s.pod(fmt.Sprintf("right-%d", i), with("backend")))
	}
	for _, tt := range tests {
		s.c.WaitForEvent(s, s.ns, "wrong-"+tt.name, tt.reason, tt.text)
		if tt.placed {
			s.nodeOf("wrong-" + tt.name)
		} else {
			s.pending("wrong-" + tt.name)
		}
		if tt.cure != "" {
			s.patch("pods", s.ns, "wrong-"+tt.name, tt.cure)
		}
	}
	for _, tt := range tests {
		if tt.cure != "" {
			s.nodeOf("wrong-" + tt.name)
		}
	}
}
