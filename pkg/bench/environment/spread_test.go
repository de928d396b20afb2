// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHeldUpBy(t *testing.T) {
	node, err := newTestEnvironment(false).adoptNode(nodeInZone())
	if err != nil {
		t.Fatal(err)
	}
	linux := map[string]string{corev1.LabelOSStable: "linux"}
	for _, tt := range []struct {
		name     string
		change   func(*corev1.Pod, *corev1.TopologySpreadConstraint)
		wantHeld bool
	}{
		{"over zones", func(*corev1.Pod, *corev1.TopologySpreadConstraint) {}, true},
		{"over nodes", func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) { c.TopologyKey = corev1.LabelHostname }, true},
		{"over what no fake node has", func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) { c.TopologyKey = "rack" }, false},
		{"a wish", func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			c.WhenUnsatisfiable = corev1.ScheduleAnyway
		}, false},
		{"taints honoured", func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
		}, false},
		{"taints ignored", func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyIgnore)
		}, true},
		{"other nodes selected", func(p *corev1.Pod, _ *corev1.TopologySpreadConstraint) { p.Spec.NodeSelector = linux }, false},
		{"other nodes selected, and that ignored", func(p *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			p.Spec.NodeSelector, c.NodeAffinityPolicy = linux, new(corev1.NodeInclusionPolicyIgnore)
		}, true},
		{"ended", func(p *corev1.Pod, _ *corev1.TopologySpreadConstraint) { p.Status.Phase = corev1.PodSucceeded }, false},
		{"no constraint", func(p *corev1.Pod, _ *corev1.TopologySpreadConstraint) { p.Spec.TopologySpreadConstraints = nil }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			}}}}
			tt.change(pod, &pod.Spec.TopologySpreadConstraints[0])
			if got := heldUpBy(pod, node); (got != "") != tt.wantHeld {
				t.Errorf("heldUpBy() = %q, want a key: %t", got, tt.wantHeld)
			}
		})
	}
}
