// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"

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
		if event.QueueingHintFn == nil {
			t.Errorf("%s has no hint: it wakes every pod", event.Event.Label())
		}
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

func TestPodHint(t *testing.T) {
	required := asking(with, "backend", require, zone)
	labelled := func(pod *corev1.Pod, app string) *corev1.Pod {
		pod.Labels = map[string]string{"app": app}
		return pod
	}
	inNamespace := func(pod *corev1.Pod, namespace string) *corev1.Pod {
		pod.Namespace = namespace
		return pod
	}
	limited := newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), MaxPerNode: 1}))
	byRule := newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("backend"), RequireWithin: zone}))
	tests := []struct {
		name     string
		args     *config.ColocationArgs
		pod      *corev1.Pod
		old, new *corev1.Pod
		want     fwk.QueueingHint
	}{
		{name: "a peer with a node", pod: required, new: makePod("b2", "backend", "b1"), want: fwk.Queue},
		{name: "a peer gets a node", pod: required, old: makePod("b2", "backend", ""), new: version(makePod("b2", "backend", "b1"), 2), want: fwk.Queue},
		{name: "a peer without a node", pod: required, new: makePod("b2", "backend", ""), want: fwk.QueueSkip},
		{name: "a pod that is no peer", pod: required, new: makePod("o", "other", "b1"), want: fwk.QueueSkip},
		{name: "a pod of the same labels elsewhere", pod: required, new: inNamespace(makePod("b2", "backend", "b1"), "elsewhere"), want: fwk.QueueSkip},
		{name: "a terminating peer", pod: required, new: terminating(makePod("b2", "backend", "b1")), want: fwk.QueueSkip},
		{name: "a peer that was one before", pod: required, old: makePod("b1", "backend", "a1"), new: version(makePod("b1", "backend", "a1"), 2), want: fwk.QueueSkip},
		{name: "becomes a peer by its labels", pod: required, old: makePod("o", "other", "b1"), new: version(labelled(makePod("o", "other", "b1"), "backend"), 2), want: fwk.Queue},
		{name: "the last peer goes, and the Service binds nobody", pod: required, old: makePod("b1", "backend", "a1"), want: fwk.Queue},
		{name: "the last peer is terminating", pod: required, old: makePod("b1", "backend", "a1"), new: version(terminating(makePod("b1", "backend", "a1")), 2), want: fwk.Queue},
		{name: "a preference is not waited for", pod: asking(with, "backend"), new: makePod("b2", "backend", "b1"), want: fwk.QueueSkip},
		{name: "but under Wait it is", args: newArgs(waiting), pod: asking(with, "backend"), new: makePod("b2", "backend", "b1"), want: fwk.Queue},
		{name: "under Wait the last peer goes", args: newArgs(waiting), pod: required, old: makePod("b1", "backend", "a1"), want: fwk.QueueSkip},
		{name: "by a rule", args: byRule, pod: asking(), new: makePod("b2", "backend", "b1"), want: fwk.Queue},
		{name: "a pod that maxPerNode counts goes", args: limited, pod: asking(), old: makePod("f1", "frontend", "a1"), want: fwk.Queue},
		{name: "is terminating", args: limited, pod: asking(), old: makePod("f1", "frontend", "a1"), new: version(terminating(makePod("f1", "frontend", "a1")), 2), want: fwk.Queue},
		{name: "is another application's now", args: limited, pod: asking(), old: makePod("f1", "frontend", "a1"), new: version(labelled(makePod("f1", "frontend", "a1"), "x"), 2), want: fwk.Queue},
		{name: "of another namespace", args: limited, pod: asking(), old: inNamespace(makePod("f1", "frontend", "a1"), "elsewhere"), want: fwk.QueueSkip},
		{name: "that it does not count", args: limited, pod: asking(), old: makePod("o", "other", "a1"), want: fwk.QueueSkip},
		{name: "only its status changes", args: limited, pod: asking(), old: makePod("f1", "frontend", "a1"), new: version(makePod("f1", "frontend", "a1"), 2), want: fwk.QueueSkip},
		{name: "the pod's annotation is corrected", pod: required, old: asking(with, "backnd", require, zone), new: version(asking(with, "backend", require, zone), 2), want: fwk.Queue},
		{name: "its annotation is removed", pod: required, old: asking(with, "backend"), new: version(asking(), 2), want: fwk.Queue},
		{name: "another annotation of it", pod: required, old: asking(with, "backend"), new: version(asking(with, "backend", "example.com/x", "y"), 2), want: fwk.QueueSkip},
		{name: "its labels, that no rule reads", pod: required, old: asking(with, "backend"), new: version(labelled(asking(with, "backend"), "x"), 2), want: fwk.QueueSkip},
		{name: "its labels, that a rule reads", args: byRule, pod: asking(), old: asking(), new: version(labelled(asking(), "x"), 2), want: fwk.Queue},
		{name: "a malformed pod waits for its own update alone", pod: asking(with, "?"), new: makePod("b2", "backend", "b1"), want: fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			_, pl := startProfile(t, tt.args, schedtest.Options{
				Nodes: threeZones(), Pods: []*corev1.Pod{makePod("b1", "backend", "a1")}, Objects: objects(makeService("shop", "backend")),
			})
			logger, _ := ktesting.NewTestContext(t)
			var oldObj, newObj any
			if tt.old != nil {
				oldObj = tt.old
			}
			if tt.new != nil {
				newObj = tt.new
			}
			// The second time the index has seen the event.
			for _, when := range []string{"the first time", "again"} {
				got, err := pl.isSchedulableAfterPodChange(logger, tt.pod, oldObj, newObj)
				if err != nil || got != tt.want {
					t.Errorf("%s: want %v, got %v (%v)", when, tt.want, got, err)
				}
			}
		})
	}
}

// A hint feeds the index before it answers: the pod that it wakes must not be
// refused by an index that has not heard of the peer yet.
func TestHintFeedsTheIndex(t *testing.T) {
	profile, pl := startProfile(t, newArgs(waiting), schedtest.Options{Nodes: threeZones(), Objects: objects(makeService("shop", "backend"))})
	logger, _ := ktesting.NewTestContext(t)
	pod := asking(with, "backend")
	if _, _, status := runPreFilter(t, profile, pod); status.IsSuccess() {
		t.Fatal("the pod does not wait")
	}
	if hint, err := pl.isSchedulableAfterPodChange(logger, pod, nil, makePod("b1", "backend", "late")); err != nil || hint != fwk.Queue {
		t.Fatalf("%v, %v", hint, err)
	}
	if _, _, status := runPreFilter(t, profile, pod); status.IsSuccess() {
		t.Fatal("a peer on a node that does not exist was counted")
	}
	if hint, err := pl.isSchedulableAfterNodeChange(logger, pod, nil, makeNode("late", "a")); err != nil || hint != fwk.Queue {
		t.Fatalf("%v, %v", hint, err)
	}
	if _, _, status := runPreFilter(t, profile, pod); !status.IsSuccess() {
		t.Errorf("after both hints: %v", status)
	}
}

// The scheduler says "deleted" of pods that live: of one whose binding failed, and
// of one whose nomination changed. They count again as soon as they have a node.
func TestHintsBuryNobodyAlive(t *testing.T) {
	pending := func(nominated string) *corev1.Pod {
		pod := makePod("b1", "backend", "")
		pod.Status.NominatedNodeName = nominated
		return pod
	}
	assumed := makePod("b1", "backend", "b1") // a copy of the pending pod, and of its version
	tests := []struct {
		name    string
		known   *corev1.Pod
		deleted *corev1.Pod
	}{
		{name: "the binding failed", known: pending(""), deleted: assumed},
		{name: "the nomination changed", known: version(pending(""), 2), deleted: pending("a1")},
		{name: "another scheduler's binding failed, of a later version", known: pending(""), deleted: version(assumed.DeepCopy(), 3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, newArgs(waiting), schedtest.Options{Nodes: threeZones(), Objects: objects(makeService("shop", "backend"))})
			logger, _ := ktesting.NewTestContext(t)
			pod := asking(with, "backend")
			pl.instance.podChanged(nil, tt.known)
			pl.instance.index.Reserve(assumed, "b1")
			pl.instance.index.Unreserve(assumed.UID)
			if _, err := pl.isSchedulableAfterPodChange(logger, pod, tt.deleted, nil); err != nil {
				t.Fatal(err)
			}
			pl.instance.index.Reserve(assumed, "b1")
			if tt.known.ResourceVersion == assumed.ResourceVersion {
				if _, _, status := runPreFilter(t, profile, pod); !status.IsSuccess() {
					t.Errorf("reserved again, the peer does not count: %v", status)
				}
			}
			pl.instance.podChanged(tt.known, version(makePod("b1", "backend", "b1"), 5))
			if _, _, status := runPreFilter(t, profile, pod); !status.IsSuccess() {
				t.Errorf("bound, the peer does not count: %v", status)
			}
		})
	}
}

func TestNodeHint(t *testing.T) {
	required := asking(with, "backend", require, zone)
	limited := newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), MaxPerNode: 1}))
	relabelled := func(name, inZone string) *corev1.Node { return version(makeNode(name, inZone), 2) }
	tainted := relabelled("a1", "a")
	tainted.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	tests := []struct {
		name     string
		args     *config.ColocationArgs
		pod      *corev1.Pod
		old, new *corev1.Node
		want     fwk.QueueingHint
	}{
		{name: "a new node with the label", pod: required, new: makeNode("a3", "a"), want: fwk.Queue},
		{name: "a new node without it", pod: required, new: makeNode("x", ""), want: fwk.QueueSkip},
		{name: "a node gets the label", pod: required, old: makeNode("b1", ""), new: relabelled("b1", "b"), want: fwk.Queue},
		{name: "a node moves", pod: required, old: makeNode("b1", "b"), new: relabelled("b1", "a"), want: fwk.Queue},
		{name: "the peer's node loses its label", pod: required, old: makeNode("a1", "a"), new: relabelled("a1", ""), want: fwk.Queue},
		{name: "another node loses its label", pod: required, old: makeNode("b1", "b"), new: relabelled("b1", ""), want: fwk.QueueSkip},
		{name: "a taint", pod: required, old: makeNode("a1", "a"), new: tainted, want: fwk.QueueSkip},
		{name: "the peers' only node goes, and the Service binds nobody", pod: required, old: makeNode("a1", "a"), want: fwk.Queue},
		{name: "another node goes", pod: required, old: makeNode("b1", "b"), want: fwk.QueueSkip},
		{name: "a preference", pod: asking(with, "backend"), new: makeNode("a3", "a"), want: fwk.QueueSkip},
		{name: "a new node for one of at most one each", args: limited, pod: asking(), new: makeNode("a3", "a"), want: fwk.Queue},
		{name: "a malformed pod", pod: asking(with, "?"), new: makeNode("a3", "a"), want: fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			_, pl := startProfile(t, tt.args, schedtest.Options{
				Nodes: threeZones(), Pods: []*corev1.Pod{makePod("b1", "backend", "a1")}, Objects: objects(makeService("shop", "backend")),
			})
			logger, _ := ktesting.NewTestContext(t)
			var oldObj, newObj any
			if tt.old != nil {
				oldObj = tt.old
			}
			if tt.new != nil {
				newObj = tt.new
			}
			got, err := pl.isSchedulableAfterNodeChange(logger, tt.pod, oldObj, newObj)
			if err != nil || got != tt.want {
				t.Errorf("want %v, got %v (%v)", tt.want, got, err)
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
