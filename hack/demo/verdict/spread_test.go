// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestSkews(t *testing.T) {
	zone := func(name, zone string) corev1.Node {
		return node(name, map[string]string{"zone": zone, "name": name})
	}
	noZone := node("nowhere", map[string]string{"name": "nowhere"})
	nodes := []corev1.Node{zone("a1", "a"), zone("a2", "a"), zone("b1", "b"), noZone}
	replica := func(name, nodeName string) corev1.Pod {
		p := pod(name, "easygoing", nodeName, nil)
		p.Labels = map[string]string{"app": "web"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
		return p
	}
	change := func(p corev1.Pod, change func(*corev1.Pod)) corev1.Pod {
		change(&p)
		return p
	}
	tests := []struct {
		name string
		pods []corev1.Pod
		want []string // about the first pod
	}{
		{name: "one in each zone", pods: []corev1.Pod{replica("1", "a1"), replica("2", "b1")}},
		{name: "one more than elsewhere", pods: []corev1.Pod{replica("1", "a1"), replica("2", "a2"), replica("3", "b1")}},
		{
			name: "two more than elsewhere", pods: []corev1.Pod{replica("1", "a1"), replica("2", "a2")},
			want: []string{"zone=a has 2 pods like it and another value 0: the skew is 2, at most 1 is allowed"},
		},
		{
			name: "where there are fewer all is well", pods: []corev1.Pod{replica("1", "b1"), replica("2", "a1"), replica("3", "a1"), replica("4", "a2")},
		},
		{
			name: "zones that nodeSelector excludes do not count",
			pods: []corev1.Pod{
				change(replica("1", "a1"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "a1"} }), replica("2", "a1"),
			},
		},
		{
			name: "others do not count",
			pods: []corev1.Pod{
				replica("1", "a1"),
				change(replica("2", "a1"), func(p *corev1.Pod) { p.Namespace = "elsewhere" }),
				change(replica("3", "a1"), func(p *corev1.Pod) { p.Labels = nil }),
				change(replica("4", "a1"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
				replica("5", ""),
			},
		},
		{
			name: "a node without the label", pods: []corev1.Pod{replica("1", "nowhere")},
			want: []string{`node "nowhere" lacks label "zone", over which the pod is to be spread`},
		},
		{
			name: "a preference only",
			pods: []corev1.Pod{
				change(replica("1", "a1"), func(p *corev1.Pod) {
					p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway
				}), replica("2", "a1"),
			},
		},
		{
			name: "a selector that is none",
			pods: []corev1.Pod{change(replica("1", "a1"), func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
			})},
			want: []string{`spec.topologySpreadConstraints[0].labelSelector: "Near" is not a valid label selector operator`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := newJudge(&Cluster{Nodes: nodes, Pods: tt.pods}, &Declaration{})
			first := &tt.pods[0]
			if diff := cmp.Diff(tt.want, j.skews(first, j.nodes[first.Spec.NodeName])); diff != "" {
				t.Errorf("unexpected violations (-want,+got):\n%s", diff)
			}
		})
	}
}

// A constraint with a field that skews does not look at is not passed, and neither
// is one of a pod without a node.
func TestConstraintsThatAreNotChecked(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Pod, *corev1.TopologySpreadConstraint)
		known  bool
	}{
		{name: "as it is", change: func(*corev1.Pod, *corev1.TopologySpreadConstraint) {}, known: true},
		{name: "the defaults in full", known: true, change: func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore)
		}},
		{name: "without a node", change: func(p *corev1.Pod, _ *corev1.TopologySpreadConstraint) { p.Spec.NodeName = "" }},
		{name: "minDomains", change: func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32) }},
		{name: "matchLabelKeys", change: func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"app"} }},
		{name: "nodeAffinityPolicy", change: func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
		}},
		{name: "nodeTaintsPolicy", change: func(_ *corev1.Pod, c *corev1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pod("web", "easygoing", "plain", nil)
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}
			tt.change(&p, &p.Spec.TopologySpreadConstraints[0])
			var want []string
			if !tt.known {
				want = []string{"spec.topologySpreadConstraints[0] limits its nodes in a way that this verdict cannot check"}
			}
			if diff := cmp.Diff(want, unknownConstraints(&p)); diff != "" {
				t.Errorf("unexpected violations (-want,+got):\n%s", diff)
			}
		})
	}
}
