// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestEventsToRegister(t *testing.T) {
	_, pl := newProfile(t, newArgs(), schedtest.Options{})
	events, err := pl.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []fwk.ClusterEvent
	for _, event := range events {
		got = append(got, event.Event)
	}
	want := []fwk.ClusterEvent{
		{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Update | fwk.Delete},
		{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want,+got):\n%s", diff)
	}
}

// version returns a copy of the object that is as many versions newer.
func version[T metav1.Object](object T, n int) T {
	object.SetResourceVersion(strconv.Itoa(n))
	return object
}

// A pod is woken by what lets the index answer otherwise than in its last attempt, and
// by nothing else, however often and however late the hint is asked.
func TestPodHint(t *testing.T) {
	required := asking(with, "backend", require, zone)
	lonely := asking(with, "cache", require, zone)
	labeled := func(pod *corev1.Pod, app string) *corev1.Pod {
		pod.Labels = map[string]string{"app": app}
		return pod
	}
	inNamespace := func(pod *corev1.Pod, namespace string) *corev1.Pod {
		pod.Namespace = namespace
		return pod
	}
	byRule := newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("backend"), RequiredTopologyKey: zone}))
	tests := []struct {
		name     string
		args     *config.ColocationArgs
		pod      *corev1.Pod
		old, new *corev1.Pod
		want     fwk.QueueingHint
	}{
		{name: "a peer in another zone", pod: required, new: makePod("b2", "backend", "b1"), want: fwk.Queue},
		{name: "a peer gets a node there", pod: required, old: makePod("b2", "backend", ""), new: version(makePod("b2", "backend", "b1"), 2), want: fwk.Queue},
		{name: "the first peer of a Service", pod: lonely, new: makePod("c1", "cache", "b1"), want: fwk.Queue},
		{name: "the first peer, while another Service has none", pod: asking(with, "cache,missing", require, zone), new: makePod("c1", "cache", "b1"), want: fwk.QueueSkip},
		{name: "a second peer in an occupied zone", pod: required, new: makePod("b2", "backend", "a2"), want: fwk.QueueSkip},
		{name: "a second peer on an occupied node", pod: asking(with, "backend", require, hostname), new: makePod("b2", "backend", "a1"), want: fwk.QueueSkip},
		{name: "a peer on another node", pod: asking(with, "backend", require, hostname), new: makePod("b2", "backend", "a2"), want: fwk.Queue},
		{name: "a peer without a node", pod: required, new: makePod("b2", "backend", ""), want: fwk.QueueSkip},
		{name: "a pod that is no peer", pod: required, new: makePod("o", "other", "b1"), want: fwk.QueueSkip},
		{name: "a pod of the same labels elsewhere", pod: required, new: inNamespace(makePod("b2", "backend", "b1"), "elsewhere"), want: fwk.QueueSkip},
		{name: "a terminating peer", pod: required, new: terminating(makePod("b2", "backend", "b1")), want: fwk.QueueSkip},
		{name: "a peer that was one before", pod: required, old: makePod("b1", "backend", "a1"), new: version(makePod("b1", "backend", "a1"), 2), want: fwk.QueueSkip},
		{name: "becomes a peer by its labels", pod: required, old: makePod("o", "other", "b1"), new: version(labeled(makePod("o", "other", "b1"), "backend"), 2), want: fwk.Queue},
		{name: "the last peer goes", pod: required, old: makePod("b1", "backend", "a1"), want: fwk.QueueSkip},
		{name: "the last peer of the pod's own group goes", pod: annotated(makePod("pending", "backend", ""), with, "backend", require, zone), old: makePod("b1", "backend", "a1"), want: fwk.Queue},
		{name: "by a rule", args: byRule, pod: asking(), new: makePod("b2", "backend", "b1"), want: fwk.Queue},
		{name: "the pod's annotation is corrected", pod: asking(with, "backnd", require, zone), old: asking(with, "backnd", require, zone), new: version(asking(with, "backend", require, zone), 2), want: fwk.Queue},
		{name: "its annotation is removed", pod: lonely, old: lonely, new: version(asking(), 2), want: fwk.Queue},
		{name: "a former annotation is removed", pod: asking("berth.dev/colocate-prefer", zone), old: asking("berth.dev/colocate-prefer", zone), new: version(asking(), 2), want: fwk.Queue},
		{name: "another annotation of it", pod: lonely, old: lonely, new: version(asking(with, "cache", require, zone, "example.com/x", "y"), 2), want: fwk.QueueSkip},
		{name: "its labels, that nobody reads", pod: lonely, old: lonely, new: version(labeled(asking(with, "cache", require, zone), "x"), 2), want: fwk.QueueSkip},
		{name: "its labels, that make it the first of the Service", pod: lonely, old: lonely, new: version(labeled(asking(with, "cache", require, zone), "cache"), 2), want: fwk.Queue},
		{name: "its labels, that a rule reads", args: byRule, pod: asking(), old: asking(), new: version(labeled(asking(), "x"), 2), want: fwk.Queue},
		{name: "a malformed pod waits for its own update alone", pod: asking(with, "?"), new: makePod("b2", "backend", "b1"), want: fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			pods := []*corev1.Pod{tt.pod, makePod("b1", "backend", "a1")}
			profile, pl := startProfile(t, tt.args, schedtest.Options{
				Nodes: threeZones(), Pods: pods, Objects: objects(makeService("shop", "backend"), makeService("shop", "cache")),
			})
			attempt(t, profile, tt.pod)
			fail(t, profile, pl, tt.pod)
			logger, _ := ktesting.NewTestContext(t)
			oldObj, newObj := happen(t, profile.SharedInformerFactory().Core().V1().Pods().Informer(), tt.old, tt.new)
			// The second time the index has seen the event, and the third time it is told of
			// it as of another one: when an attempt ends that was under way.
			for _, when := range []string{"the first time", "again", "late"} {
				if when == "late" {
					pl.instance.hinted.Store(nil)
				}
				got, err := pl.isSchedulableAfterPodChange(logger, tt.pod, oldObj, newObj)
				if err != nil || got != tt.want {
					t.Errorf("%s: want %v, got %v (%v)", when, tt.want, got, err)
				}
			}
		})
	}
}

// fail records that the plugin has rejected a node for the pod, where it did not reject
// the pod: as if the others were full.
func fail(t *testing.T, profile *schedtest.Profile, pl *Colocation, pod *corev1.Pod) {
	t.Helper()
	if pl.instance.waiting.rejectionOf(pod.UID) != nil {
		return
	}
	profile.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), pod, "")
	state := profile.NewCycle(t.Context(), t, pod)
	s, err := getPreFilterState(state)
	if err != nil {
		t.Fatal(err)
	}
	pl.instance.recordRejection(klog.FromContext(t.Context()), s.rejection)
	if pl.instance.waiting.rejectionOf(pod.UID) == nil {
		t.Fatal("the pod is not rejected")
	}
}

// A hint feeds the index before it answers: the pod that it wakes must not be
// refused by an index that has not heard of the peer yet.
func TestHintFeedsTheIndex(t *testing.T) {
	pod := asking(with, "backend", require, zone)
	profile, pl := startProfile(t, newArgs(), schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{pod}, Objects: objects(makeService("shop", "backend"))})
	logger, _ := ktesting.NewTestContext(t)
	if attempt(t, profile, pod) {
		t.Fatal("the pod does not wait")
	}
	informers := profile.SharedInformerFactory().Core().V1()
	_, peer := happen(t, informers.Pods().Informer(), nil, makePod("b1", "backend", "late"))
	if hint, err := pl.isSchedulableAfterPodChange(logger, pod, nil, peer); err != nil || hint != fwk.QueueSkip {
		t.Fatalf("a peer on a node that does not exist: %v, %v", hint, err)
	}
	_, node := happen(t, informers.Nodes().Informer(), nil, makeNode("late", "a"))
	if hint, err := pl.isSchedulableAfterNodeChange(logger, pod, nil, node); err != nil || hint != fwk.Queue {
		t.Fatalf("%v, %v", hint, err)
	}
	if !attempt(t, profile, pod) {
		t.Error("after both hints the pod still waits")
	}
}

// The scheduler says "deleted" of pods that live: of one whose binding failed, and
// of one whose nomination changed. And it tells of events anew that are long over.
func TestHintsBelieveTheStore(t *testing.T) {
	pod := asking(with, "backend", require, zone)
	peer := makePod("b1", "backend", "b1")
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{pod, peer}, Objects: objects(makeService("shop", "backend")),
	})
	logger, _ := ktesting.NewTestContext(t)
	if _, err := pl.isSchedulableAfterPodChange(logger, pod, peer.DeepCopy(), nil); err != nil {
		t.Fatal(err)
	}
	if !attempt(t, profile, pod) {
		t.Error("a peer that lives does not count")
	}
	happen(t, profile.SharedInformerFactory().Core().V1().Pods().Informer(), peer, nil)
	pl.instance.podChanged(peer, nil)
	for i := range 10_000 {
		pl.instance.podChanged(makePod(fmt.Sprintf("other-%d", i), "backend", "b1"), nil)
	}
	if _, err := pl.isSchedulableAfterPodChange(logger, pod, nil, peer); err != nil {
		t.Fatal(err)
	}
	if attempt(t, profile, pod) {
		t.Error("a peer that is gone counts again")
	}
}

func TestNodeHint(t *testing.T) {
	required := asking(with, "backend", require, zone)
	relabeled := func(name, inZone string) *corev1.Node { return version(makeNode(name, inZone), 2) }
	tainted := relabeled("a1", "a")
	tainted.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	racked := relabeled("a1", "a")
	racked.Labels["example.com/rack"] = "r1"
	emptyRack := relabeled("b1", "b")
	emptyRack.Labels["example.com/rack"] = "r1"
	own := annotated(makePod("pending", "cache", ""), with, "cache", require, "example.com/rack")
	tests := []struct {
		name     string
		args     *config.ColocationArgs
		pod      *corev1.Pod
		old, new *corev1.Node
		want     fwk.QueueingHint
	}{
		{name: "a new node where a peer is", pod: required, new: makeNode("a3", "a"), want: fwk.Queue},
		{name: "a new node in a zone without one", pod: required, new: makeNode("d1", "d"), want: fwk.QueueSkip},
		{name: "a new node without the label", pod: required, new: makeNode("x", ""), want: fwk.QueueSkip},
		{name: "a node gets the label of a zone without a peer", pod: required, old: makeNode("b1", ""), new: relabeled("b1", "b"), want: fwk.QueueSkip},
		{name: "a node moves to where a peer is", pod: required, old: makeNode("b1", "b"), new: relabeled("b1", "a"), want: fwk.Queue},
		{name: "a node moves away from there", pod: required, old: makeNode("a2", "a"), new: relabeled("a2", "b"), want: fwk.QueueSkip},
		{name: "the peer's node moves", pod: required, old: makeNode("a1", "a"), new: relabeled("a1", "b"), want: fwk.Queue},
		{name: "the peer's node loses its label", pod: required, old: makeNode("a1", "a"), new: relabeled("a1", ""), want: fwk.QueueSkip},
		{name: "another node loses its label", pod: required, old: makeNode("b1", "b"), new: relabeled("b1", ""), want: fwk.QueueSkip},
		{name: "a taint", pod: required, old: makeNode("a1", "a"), new: tainted, want: fwk.QueueSkip},
		{name: "the peers' only node goes", pod: required, old: makeNode("a1", "a"), want: fwk.QueueSkip},
		{name: "another node goes", pod: required, old: makeNode("b1", "b"), want: fwk.QueueSkip},
		{name: "a node where no peer of a Service is", pod: asking(with, "cache", require, zone), new: makeNode("a3", "a"), want: fwk.QueueSkip},
		{name: "the first node with the required key, and a peer on it", pod: asking(with, "backend", require, "example.com/rack"), old: makeNode("a1", "a"), new: racked, want: fwk.Queue},
		{name: "the first node with the required key, and no peer on it", pod: asking(with, "backend", require, "example.com/rack"), old: makeNode("b1", "b"), new: emptyRack, want: fwk.QueueSkip},
		{name: "the first node with the key, for the first of its group", pod: own, old: makeNode("b1", "b"), new: emptyRack, want: fwk.Queue},
		{name: "a malformed pod", pod: asking(with, "?"), new: makeNode("a3", "a"), want: fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			profile, pl := startProfile(t, tt.args, schedtest.Options{
				Nodes: threeZones(), Pods: []*corev1.Pod{tt.pod, makePod("b1", "backend", "a1")},
				Objects: objects(makeService("shop", "backend"), makeService("shop", "cache")),
			})
			attempt(t, profile, tt.pod)
			fail(t, profile, pl, tt.pod)
			logger, _ := ktesting.NewTestContext(t)
			oldObj, newObj := happen(t, profile.SharedInformerFactory().Core().V1().Nodes().Informer(), tt.old, tt.new)
			for _, when := range []string{"the first time", "again"} {
				got, err := pl.isSchedulableAfterNodeChange(logger, tt.pod, oldObj, newObj)
				if err != nil || got != tt.want {
					t.Errorf("%s: want %v, got %v (%v)", when, tt.want, got, err)
				}
			}
		})
	}
}

// What is not what it should be wakes the pod rather than strand it.
func TestHintsOfUnknownObjects(t *testing.T) {
	_, pl := newProfile(t, newArgs(), schedtest.Options{})
	logger, _ := ktesting.NewTestContext(t)
	if hint, err := pl.isSchedulableAfterPodChange(logger, asking(), nil, makeNode("a", "")); err == nil || hint != fwk.Queue {
		t.Errorf("%v, %v", hint, err)
	}
	if hint, err := pl.isSchedulableAfterNodeChange(logger, asking(), nil, asking()); err == nil || hint != fwk.Queue {
		t.Errorf("%v, %v", hint, err)
	}
}
