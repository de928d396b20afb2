// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const noPeerInZone = "in the same " + corev1.LabelTopologyZone

// nodeRelabeled: a node that is put into the peer's zone wakes the pod that may
// use no other; and so does the peer's node that is put into the pod's.
func nodeRelabeled(s *suite) {
	s.addNodes("peer=a", "own=b", "own2=c")
	s.addService("backend")
	s.create(s.pod("backend", s.on("peer")))

	s.create(s.pod("caller-1", with("backend"), within(corev1.LabelTopologyZone), s.only("own")))
	s.create(s.pod("caller-2", with("backend"), within(corev1.LabelTopologyZone), s.only("own2")))
	s.refused("caller-1", "node(s) had no pod of Service node-relabeled/backend "+noPeerInZone)
	s.refused("caller-2", "node(s) had no pod of Service node-relabeled/backend "+noPeerInZone)

	s.patch("nodes", "", s.named("own"), `{"metadata": {"labels": {"`+corev1.LabelTopologyZone+`": "`+s.named("a")+`"}}}`)
	if got := s.nodeOf("caller-1"); got != "own" {
		s.Errorf("the pod went to %s", got)
	}
	s.pending("caller-2")
	s.patch("nodes", "", s.named("peer"), `{"metadata": {"labels": {"`+corev1.LabelTopologyZone+`": "`+s.named("c")+`"}}}`)
	if got := s.nodeOf("caller-2"); got != "own2" {
		s.Errorf("the pod went to %s", got)
	}
}

// selectorChanged: a Service that selects other pods wakes the pods that miss it,
// and does not bind them to those that it selected before.
func selectorChanged(s *suite) {
	s.addNodes("old=a", "new=b")
	s.addService("backend")
	s.create(s.pod("backend", s.on("old")))
	s.create(s.pod("successor", s.on("new")))
	s.create(s.pod("caller-1", with("backend"), within(corev1.LabelTopologyZone), s.only("new")))
	s.refused("caller-1", "node(s) had no pod of Service selector-changed/backend "+noPeerInZone)

	s.patch("services", s.ns, "backend", `{"spec": {"selector": {"app": "successor"}}}`)
	s.nodeOf("caller-1")
	s.create(s.pod("caller-2", with("backend"), within(corev1.LabelTopologyZone), s.only("old")))
	s.refused("caller-2", "node(s) had no pod of Service selector-changed/backend "+noPeerInZone)

	// A pod that changes its labels becomes a peer too.
	s.patch("pods", s.ns, "backend", `{"metadata": {"labels": {"app": "successor"}}}`)
	s.nodeOf("caller-2")
}

// serviceDeleted takes the Service away from a pod that waits to be in its zone: that
// releases it nowhere.
func serviceDeleted(s *suite) {
	s.addNodes("peer=a", "own=b")
	s.addService("backend")
	s.create(s.pod("backend", s.on("peer")))
	s.create(s.pod("caller", with("backend"), within(corev1.LabelTopologyZone), s.only("own")))
	s.refused("caller", "node(s) had no pod of Service service-deleted/backend "+noPeerInZone)
	s.deleteService("backend")
	s.create(s.pod("strict", with("backend"), within(corev1.LabelTopologyZone)))
	s.refused("strict", "Service service-deleted/backend does not exist")
	s.place(s.pod("later"))
	s.pending("caller")
	s.pending("strict")

	// It comes back, and a pod of it where the first one may go.
	s.create(s.pod("backend-2", s.on("own")))
	s.addService("backend")
	if got := s.nodeOf("caller"); got != "own" {
		s.Errorf("the pod went to %s", got)
	}
	s.nodeOf("strict")
}

// serviceDeletedWhileWaiting deletes the Service that a pod waits for: the pod goes on
// to wait, and is not tried for a pod that is behind no Service any more.
func serviceDeletedWhileWaiting(s *suite) {
	s.addNodes("n0=a", "n1=b")
	s.addService("backend")
	s.create(s.pod("waiter", with("backend"), within(corev1.LabelHostname)))
	s.refused("waiter", "Service service-deleted-while-waiting/backend exists, and none of its pods has a node yet")
	s.deleteService("backend")
	// Another pod that names the same tells when the scheduler knows: it is told that
	// there is no such Service.
	s.create(s.pod("ignored", with("backend")))
	s.c.WaitForEvent(s, s.ns, "ignored", "ColocationIgnored", "Service service-deleted-while-waiting/backend has no effect")
	before := s.attempts("waiter")
	if before == 0 {
		s.Fatal("the scheduler's log tells of no attempt")
	}

	s.create(s.pod("backend-1", s.only("n1")))
	s.nodeOf("backend-1")
	// All events up to here have been looked at when a pod is placed that came later.
	s.place(s.pod("later"))
	if after := s.attempts("waiter"); after != before {
		s.Errorf("the pod was tried %d times more because of a Service that is gone", after-before)
	}
	s.pending("waiter")

	s.addService("backend")
	if got := s.nodeOf("waiter"); got != "n1" {
		s.Errorf("the pod went to %s", got)
	}
}

func (s *suite) deleteService(name string) {
	s.Helper()
	if err := s.c.Client.CoreV1().Services(s.ns).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}
