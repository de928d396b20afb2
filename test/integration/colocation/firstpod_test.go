// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// callersOfEachOther: where being near is preferred, two Services that name each other start, and
// near each other.
func callersOfEachOther(s *suite) {
	s.addService("chicken")
	s.addService("egg")
	s.addNodes("n0=a", "n1=b", "n2=c")
	// Whoever comes first finds nobody, the second goes to it; both are in the queue
	// at the same time.
	s.create(s.pod("chicken", with("egg")))
	s.create(s.pod("egg", with("chicken")))
	if chicken, egg := s.nodeOf("chicken"), s.nodeOf("egg"); chicken != egg {
		s.Errorf("the pods are on %s and %s", chicken, egg)
	}
}

// waitForEachOther: where it is required, two Services that name each other both say what
// they wait for, and start when one of them has a pod.
func waitForEachOther(s *suite) {
	s.addService("chicken")
	s.addService("egg")
	s.addNodes("n0=a", "n1=b")
	s.create(s.pod("chicken-1", with("egg"), within(corev1.LabelHostname)))
	s.create(s.pod("egg-1", with("chicken"), within(corev1.LabelHostname)))
	s.refused("chicken-1", "Service wait-for-each-other/egg exists, and none of its pods has a node yet")
	s.refused("egg-1", "Service wait-for-each-other/chicken exists, and none of its pods has a node yet")
	s.pending("chicken-1")
	s.pending("egg-1")

	s.create(s.pod("egg-2", s.on("n1")))
	for _, name := range []string{"chicken-1", "egg-1"} {
		if got := s.nodeOf(name); got != "n1" {
			s.Errorf("pod %s went to %s", name, got)
		}
	}
}

// waitForBinding: a pod starts as soon as the first peer is bound by
// the same scheduler. It prints how long that takes, from watch events.
func waitForBinding(s *suite) {
	s.addNodes("n0=a", "n1=b")
	watcher, err := s.c.Client.CoreV1().Pods(s.ns).Watch(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	defer watcher.Stop()
	deadline := time.After(framework.WaitTimeout)
	seen := map[string]time.Time{}
	// bound returns when the watch told that the pod has a node.
	bound := func(name string) time.Time {
		for seen[name].IsZero() {
			select {
			case event, ok := <-watcher.ResultChan():
				if !ok || event.Type == watch.Error {
					s.Fatalf("the watch of pods ended: %v", event.Object)
				}
				if p, isPod := event.Object.(*corev1.Pod); isPod && p.Spec.NodeName != "" && seen[p.Name].IsZero() {
					seen[p.Name] = time.Now()
				}
			case <-deadline:
				s.Fatalf("pod %s has no node yet", name)
			}
		}
		return seen[name]
	}

	var latencies []time.Duration
	for i := range 10 {
		peer, waiter := fmt.Sprintf("peer%d", i), fmt.Sprintf("waiter-%d", i)
		s.addService(peer)
		s.create(s.pod(waiter, with(peer), within(corev1.LabelHostname)))
		s.refused(waiter, "Service wait-for-binding/"+peer+" exists, and none of its pods has a node yet")
		// The peer may be of any profile.
		s.create(s.pod(peer, by([]string{plainProfile, shippedProfile}[i%2])))
		from := bound(peer)
		latencies = append(latencies, bound(waiter).Sub(from))
		if on, peerOn := s.nodeOf(waiter), s.nodeOf(peer); on != peerOn {
			s.Errorf("%s is on %s, its peer on %s", waiter, on, peerOn)
		}
	}
	slices.Sort(latencies)
	s.Logf("from a peer's binding to that of the pod that waits for it: median %v, longest %v, of %d",
		latencies[len(latencies)/2].Round(time.Millisecond), latencies[len(latencies)-1].Round(time.Millisecond), len(latencies))
}

// waitForEndpoint: a Service without a selector has the peers that an
// EndpointSlice of somebody else names, be it a node alone.
func waitForEndpoint(s *suite) {
	s.addNodes("n0=a", "n1=b")
	s.addService("database")
	s.patch("services", s.ns, "database", `{"spec": {"selector": null}}`)
	s.create(s.pod("waiter", with("database"), within(corev1.LabelHostname)))
	s.refused("waiter", "Service wait-for-endpoint/database exists, and none of its pods has a node yet")

	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "database-by-hand", Namespace: s.ns,
			Labels: map[string]string{discoveryv1.LabelServiceName: "database"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, NodeName: ptr.To(s.named("n1"))}},
	}
	if _, err := s.c.Client.DiscoveryV1().EndpointSlices(s.ns).Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if got := s.nodeOf("waiter"); got != "n1" {
		s.Errorf("the pod went to %s", got)
	}
}

// firstOfItsGroup has pods that require to be together: the first one goes anywhere,
// the others follow it, and one that is behind the Service by a later label too.
func firstOfItsGroup(s *suite) {
	s.addNodes("n0=a", "n1=b", "n2=c")
	s.addService("ring")
	first := s.place(s.pod("ring-1", with("ring"), within(corev1.LabelTopologyZone)))
	for _, name := range []string{"ring-2", "ring-3"} {
		if got := s.place(s.pod(name, with("ring"), within(corev1.LabelTopologyZone))); got != first {
			s.Errorf("%s is on %s, the first on %s", name, got, first)
		}
	}
	s.addService("founder")
	s.create(s.pod("late", with("founder"), within(corev1.LabelTopologyZone)))
	s.refused("late", "Service first-of-its-group/founder exists, and none of its pods has a node yet")
	s.patch("pods", s.ns, "late", `{"metadata": {"labels": {"app": "founder"}}}`)
	s.nodeOf("late")
}

// podsThatAskForNothing: PreFilter and PreScore skip pods that name no Service, so that
// the plugin is asked about no node.
func podsThatAskForNothing(s *suite) {
	s.addNodes("n0=a", "n1=a")
	s.addService("backend")
	s.create(s.pod("backend", s.on("n0")))
	for i := range 20 {
		s.place(s.pod(fmt.Sprintf("plain-%d", i), by(plainProfile)))
	}
	// The metric counts every call of a profile's plugin that was not skipped.
	points := []string{"PreFilter", "Filter", "PreScore", "Score"}
	for _, point := range points {
		if got := s.evaluations("Colocation", point); got != "0" {
			s.Errorf("%s of Colocation was called %s times for pods that name no Service", point, got)
		}
		if got := s.evaluations("NodeResourcesFit", point); got == "0" {
			s.Errorf("%s of NodeResourcesFit was never called: the metric does not count what it is thought to", point)
		}
	}
	s.place(s.pod("caller", with("backend"), within(corev1.LabelTopologyZone), by(plainProfile)))
	for _, point := range points {
		if got := s.evaluations("Colocation", point); got == "0" {
			s.Errorf("%s of Colocation was not called for a pod that names a Service", point)
		}
	}
}

// evaluations returns how often a plugin of plainProfile was called at an extension
// point.
func (s *suite) evaluations(plugin, point string) string {
	s.Helper()
	for line := range strings.Lines(s.scheduler.Metrics(s)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(name, "scheduler_plugin_evaluation_total{") && strings.Contains(name, `plugin="`+plugin+`"`) &&
			strings.Contains(name, `extension_point="`+point+`"`) && strings.Contains(name, `profile="`+plainProfile+`"`) {
			return value
		}
	}
	return "0"
}
