// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxPerNode: the backend runs in one zone. The frontends belong into its zone and
// one to a node; those that are also spread over the zones are spread, and still
// one to a node.
func maxPerNode(s *suite) {
	s.addNodes("a0=a", "a1=a", "a2=a", "b0=b", "b1=b", "b2=b")
	s.addService("backend")
	s.create(s.pod("backend-1", s.on("a0")))

	// near places so many frontends and returns how many there are in each zone; no
	// node may have two of them.
	near := func(prefix string, n int, change ...func(*corev1.Pod)) map[byte]int {
		s.Helper()
		zones, nodes := map[byte]int{}, map[string]bool{}
		for i := range n {
			p := s.pod(fmt.Sprintf("%s-%d", prefix, i), change...)
			p.Spec.SchedulerName = rulesProfile
			node := s.place(p)
			if nodes[node] {
				s.Errorf("%s has two of %s", node, prefix)
			}
			nodes[node] = true
			zones[node[0]]++
		}
		return zones
	}
	web := func(p *corev1.Pod) { p.Labels["app"] = "web" }
	// The limit is counted over all pods that the rule selects, so the groups come
	// one after the other.
	clean := func() {
		s.Helper()
		s.c.Kubectl(s, "delete", "pod", "-n", s.ns, "-l", "app=web", "--wait=true")
	}

	if diff := cmp.Diff(map[byte]int{'a': 3, 'b': 1}, near("web", 4)); diff != "" {
		s.Errorf("frontends by zone (-want,+got):\n%s", diff)
	}
	clean()

	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	if diff := cmp.Diff(map[byte]int{'a': 3, 'b': 3}, near("spread", 6, web, spread)); diff != "" {
		s.Errorf("spread frontends by zone (-want,+got):\n%s", diff)
	}
	full := s.pod("spread-full", web, spread)
	full.Spec.SchedulerName = rulesProfile
	s.create(full)
	s.refused("spread-full", "node(s) already had the 1 pod(s) that Colocation rules[0].maxPerNode allows")

	// One that goes makes room.
	s.c.Kubectl(s, "delete", "pod", "-n", s.ns, "spread-0", "--wait=true")
	s.nodeOf("spread-full")
}
