// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// preemption: room is made for a pod that requires a peer on its node, by evicting
// others, and never the peer.
func preemption(s *suite) {
	s.addNodes("peer=a", "other=b")
	s.addService("backend")

	// The peer is as important as the pod that needs it, the rest is not. On the
	// other node there is less to evict, but no peer.
	s.create(s.pod("backend", s.on("peer"), cpus(1), of("high")))
	s.create(s.pod("filler-1", s.on("peer"), cpus(3), of("low")))
	s.create(s.pod("filler-2", s.on("other"), cpus(3), of("low")))
	for _, name := range []string{"backend", "filler-1", "filler-2"} {
		s.c.WaitForPodRunning(s, s.ns, name)
	}
	if got := s.place(s.pod("caller-1", with("backend"), within(corev1.LabelHostname), cpus(3), of("high"))); got != "peer" {
		s.Errorf("the pod went to %s", got)
	}
	s.c.WaitForPodGone(s, s.ns, "filler-1")
	s.still("backend", "filler-2")

	// Now the peer is the only pod that could be evicted, and the next caller would
	// fit in its place, only to miss it.
	s.addNodes("lone=c")
	s.addService("lowly")
	s.create(s.pod("lowly", s.on("lone"), cpus(3), of("low")))
	s.c.WaitForPodRunning(s, s.ns, "lowly")
	s.create(s.pod("caller-2", with("lowly"), within(corev1.LabelHostname), cpus(3), of("high")))
	note := s.refused("caller-2", "preemption:")
	s.Logf("instead of evicting the peer: %s", note)
	s.still("lowly", "backend", "filler-2", "caller-1")
	s.pending("caller-2")

	// The same within the zone, where the peer is on another node: the other node's
	// pod is evicted.
	s.addNodes("second=c")
	s.create(s.pod("filler-3", s.on("second"), cpus(3), of("low")))
	s.c.WaitForPodRunning(s, s.ns, "filler-3")
	if got := s.place(s.pod("caller-3", with("lowly"), within(corev1.LabelTopologyZone), cpus(3), of("high"), s.only("second"))); got != "second" {
		s.Errorf("the pod went to %s", got)
	}
	s.c.WaitForPodGone(s, s.ns, "filler-3")
	s.still("lowly", "backend", "filler-2")
}

// still fails the test if one of the pods is gone or about to go.
func (s *suite) still(names ...string) {
	s.Helper()
	for _, name := range names {
		p, err := s.c.Client.CoreV1().Pods(s.ns).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			s.Errorf("pod %s: %v", name, err)
		} else if p.DeletionTimestamp != nil {
			s.Errorf("pod %s was evicted", name)
		}
	}
}
