// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nearAndSpread: the backend runs in one zone. The frontends belong into its zone, by
// a rule; with topologySpreadConstraints they are one to a node of it at first, and
// those that are also spread over the zones are spread.
func nearAndSpread(s *suite) {
	s.addNodes("a0=a", "a1=a", "a2=a", "b0=b", "b1=b", "b2=b")
	s.addService("backend")
	s.create(s.pod("backend-1", s.on("a0")))
	spreadOver := func(topologyKey string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: topologyKey, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MatchLabelKeys: []string{"group"},
			})
		}
	}
	for _, group := range []struct {
		name   string
		change []func(*corev1.Pod)
		want   map[byte]int
	}{
		{"nodes", []func(*corev1.Pod){spreadOver(corev1.LabelHostname)}, map[byte]int{'a': 3, 'b': 1}},
		{"zones", []func(*corev1.Pod){spreadOver(corev1.LabelHostname), spreadOver(corev1.LabelTopologyZone)}, map[byte]int{'a': 2, 'b': 2}},
	} {
		zones, nodes := map[byte]int{}, map[string]bool{}
		for i := range 4 {
			p := s.pod(fmt.Sprintf("web-%s-%d", group.name, i), append(group.change, by(rulesProfile), func(p *corev1.Pod) { p.Labels["group"] = group.name })...)
			node := s.place(p)
			zones[node[0]]++
			nodes[node] = true
		}
		if diff := cmp.Diff(group.want, zones); diff != "" || len(nodes) != 4 {
			s.Errorf("frontends spread over %s, by zone, on %d nodes (-want,+got):\n%s", group.name, len(nodes), diff)
		}
	}
}
