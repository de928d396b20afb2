// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// consent: a Service of another namespace that does not consent looks like one that
// does not exist, in every text and in every score; one that consents attracts.
func consent(s *suite) {
	s.addNodes("n0=a", "n1=b", "n2=c")
	owner := s.named("owner")
	s.addNamespace(owner)
	s.addServiceIn(owner, "closed", map[string]string{names.AllowColocationFromAnnotation: "others, consen*"})
	s.addServiceIn(owner, "opened", map[string]string{names.AllowColocationFromAnnotation: "others, " + s.ns})
	for _, app := range []string{"closed", "opened"} {
		peer := s.pod(app, s.on("n1"))
		peer.Namespace = owner
		s.create(peer)
	}

	// What is seen of a pod that names a Service, with the names made the same.
	observe := func(service string) map[string]any {
		refer := owner + "/" + service
		anonymous := strings.NewReplacer(refer, "SERVICE", service, "NAME")
		caller, strict := "caller-"+service, "strict-"+service
		s.create(s.pod(caller, with(refer)))
		s.create(s.pod(strict, with(refer), within("topology.kubernetes.io/zone")))
		seen := map[string]any{
			"required": anonymous.Replace(s.refused(strict, "no Service "+refer+" lets pods")),
			"event":    anonymous.Replace(s.c.WaitForEvent(s, s.ns, caller, "ColocationIgnored", refer)),
		}
		s.pending(strict)
		s.nodeOf(caller)
		seen["scores"] = s.scores(caller)
		return seen
	}
	absent, forbidden := observe("absent"), observe("closed")
	if diff := cmp.Diff(absent, forbidden); diff != "" {
		s.Errorf("a Service that does not exist and one that does not consent differ (-absent,+forbidden):\n%s", diff)
	}
	s.Logf("what is seen of both: %v", forbidden)

	if got := s.place(s.pod("guest-1", with(owner+"/opened"))); got != "n1" {
		s.Errorf("the pod whose namespace is allowed went to %s", got)
	}
	want := []string{"n0 0", "n1 200000", "n2 0"}
	if diff := cmp.Diff(want, s.scores("guest-1")); diff != "" {
		s.Errorf("scores near a Service that consents (-want,+got):\n%s", diff)
	}
	if got := s.place(s.pod("guest-2", with(owner+"/opened"), within("kubernetes.io/hostname"))); got != "n1" {
		s.Errorf("required, the pod whose namespace is allowed went to %s", got)
	}
}

// scores returns what Colocation gave each node for the pod, as "node score", by
// the scheduler's log, which multiplies by the plugin's weight. It is empty if the
// plugin was not asked.
func (s *suite) scores(pod string) []string {
	line := regexp.MustCompile(`"Plugin scored node for pod" pod="` + s.ns + "/" + pod + `" plugin="Colocation" node="` + s.ns + `-(\w+)" score=(\d+)`)
	scores := []string{}
	for _, match := range line.FindAllStringSubmatch(s.scheduler.Output(), -1) {
		scores = append(scores, match[1]+" "+match[2])
	}
	slices.Sort(scores)
	return scores
}

// consentComesLater: a pod that waits for a Service that does not let it near is
// woken by the annotation, and goes to it; without it, it is left alone.
func consentComesLater(s *suite) {
	s.addNodes("n0=a", "n1=b")
	owner := s.named("owner")
	s.addNamespace(owner)
	s.addServiceIn(owner, "closed", nil)
	peer := s.pod("closed", s.on("n1"))
	peer.Namespace = owner
	s.create(peer)
	s.create(s.pod("waiter", with(owner+"/closed"), within("kubernetes.io/hostname")))
	s.refused("waiter", "no Service "+owner+"/closed lets pods")

	s.patch("services", owner, "closed", `{"metadata": {"annotations": {"`+names.AllowColocationFromAnnotation+`": "`+s.ns+`"}}}`)
	if got := s.nodeOf("waiter"); got != "n1" {
		s.Errorf("the pod went to %s", got)
	}

	// And it can be taken back: the next pod waits.
	s.patch("services", owner, "closed", `{"metadata": {"annotations": null}}`)
	framework.WaitForCondition(s, framework.WaitTimeout, "a pod to be refused again", func() (bool, error) {
		probe := s.pod("probe", with(owner+"/closed"), within("kubernetes.io/hostname"))
		s.create(probe)
		seen := s.c.WaitForPod(s, s.ns, probe.Name, "decided", decided)
		s.c.Kubectl(s, "delete", "pod", "-n", s.ns, probe.Name, "--wait=true")
		return seen.Spec.NodeName == "", nil
	})
}

// unrelatedConsent has pods that fit nowhere, for want of CPUs, while the owner of the
// Service that they require changes his mind: nobody tries them again for that.
func unrelatedConsent(s *suite) {
	s.addNodes("n0=a")
	owner := s.named("owner")
	s.addNamespace(owner)
	s.addServiceIn(owner, "backend", map[string]string{names.AllowColocationFromAnnotation: s.ns})
	peer := s.pod("backend", s.on("n0"))
	peer.Namespace = owner
	s.create(peer)
	for _, name := range []string{"huge-1", "huge-2"} {
		s.create(s.pod(name, with(owner+"/backend"), within("kubernetes.io/hostname"), cpus(8)))
		s.refused(name, "Insufficient cpu")
	}
	before := s.attempts("huge-1") + s.attempts("huge-2")
	for i := range 10 {
		consent := []string{"others", s.ns}[i%2]
		s.patch("services", owner, "backend", `{"metadata": {"annotations": {"`+names.AllowColocationFromAnnotation+`": "`+consent+`"}}}`)
		// The scheduler has seen it when a pod is decided by it. None is deleted: that
		// would give room, for which the pods above are tried again, and rightly.
		probes := 0
		framework.WaitForCondition(s, framework.WaitTimeout, "the change of consent to be seen", func() (bool, error) {
			probes++
			probe := s.pod(fmt.Sprintf("probe-%d-%d", i, probes), with(owner+"/backend"), within("kubernetes.io/hostname"))
			s.create(probe)
			seen := s.c.WaitForPod(s, s.ns, probe.Name, "decided", decided)
			return (seen.Spec.NodeName != "") == (i%2 == 1), nil
		})
	}
	if after := s.attempts("huge-1") + s.attempts("huge-2"); after != before {
		s.Errorf("pods that lack CPUs were tried %d times more for consent that they have nothing to do with", after-before)
	}
}
