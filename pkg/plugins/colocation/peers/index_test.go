// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// changed returns a copy of an object with a later version.
func changed[T any, P interface {
	*T
	metav1.Object
}](object P, change func(P),
) P {
	copied := new(T)
	*copied = *object
	P(copied).SetResourceVersion(object.GetResourceVersion() + "0")
	change(copied)
	return copied
}

// newShop has nodes n0 and n1 in zone a, n2 in zone b, and a Service backend.
func newShop() *informed {
	x := newInformed()
	x.ApplyNode(nil, makeNode(0, "a"))
	x.ApplyNode(nil, makeNode(1, "a"))
	x.ApplyNode(nil, makeNode(2, "b"))
	x.ApplyService(nil, makeService("backend", map[string]string{"app": "backend"}))
	return x
}

func podEndpoint(name string, uid types.UID) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name, UID: uid}}
}

func nodeEndpoint(name string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{NodeName: ptr.To(name)}
}

// TestTopologyKeysAreBounded asks for more keys than are kept, and for keys that
// nobody has.
func TestTopologyKeysAreBounded(t *testing.T) {
	x := newShop()
	many := makeNode(9, "c")
	const carried = 5 * MaxTopologyKeys
	for i := range carried {
		many.Labels[fmt.Sprintf("key-%d", i)] = "value"
	}
	x.ApplyNode(nil, many)
	x.ApplyPod(nil, makePod("p", 1, "n9"))
	group := func() *group { return x.namespaces["shop"].services["backend"].group }

	for i := range 1000 {
		view, _ := x.Lookup("shop", "shop", "backend", fmt.Sprintf("invented-%d", i), corev1.LabelTopologyZone)
		if view.Within(corev1.LabelTopologyZone, "c") != 1 || view.Level(fmt.Sprintf("invented-%d", i)).Len() != 0 {
			t.Fatalf("call %d: %d peers in zone c, and %d values of a key that no node has", i, view.Within(corev1.LabelTopologyZone, "c"), view.Level(fmt.Sprintf("invented-%d", i)).Len())
		}
	}
	if got := len(group().levels); got != 1 {
		t.Errorf("want 1 key kept, got %d", got)
	}

	for i := range carried {
		key := fmt.Sprintf("key-%d", i)
		view, _ := x.Lookup("shop", "shop", "backend", key, corev1.LabelTopologyZone)
		if got := view.Within(key, "value"); got != 1 {
			t.Fatalf("%s: want 1 peer, got %d", key, got)
		}
	}
	if got := len(group().levels); got != MaxTopologyKeys {
		t.Errorf("want %d keys kept, got %d", MaxTopologyKeys, got)
	}
	if group().levels[0].key != corev1.LabelTopologyZone {
		t.Errorf("the key that every call asked for is gone")
	}

	var all []string
	for i := range carried {
		all = append(all, fmt.Sprintf("key-%d", i))
	}
	view, _ := x.Lookup("shop", "shop", "backend", all...)
	for _, key := range all {
		if got := view.Within(key, "value"); got != 1 {
			t.Fatalf("all at once: %s: want 1 peer, got %d", key, got)
		}
	}
	x.Lookup("shop", "shop", "backend")
	if got := len(group().levels); got != MaxTopologyKeys {
		t.Errorf("after all at once: want %d keys kept, got %d", MaxTopologyKeys, got)
	}
}

// TestNothingStays lets everything come and go.
func TestNothingStays(t *testing.T) {
	x := newShop()
	x.ApplyService(nil, makeService("listed", nil))
	x.ApplyEndpointSlice(nil, makeSlice("e", "listed", discoveryv1.AddressTypeIPv4, nodeEndpoint("n0"), podEndpoint("p", "")))
	x.ApplyPod(nil, makePod("p", 1, "n0"))
	x.ApplyPod(nil, makePod("q", 1, ""))
	x.Reserve(makePod("q", 1, ""), "n1")
	x.Lookup("shop", "shop", "backend", corev1.LabelHostname)
	x.Lookup("shop", "shop", "listed", corev1.LabelHostname)
	x.Lookup("nobody", "nowhere", "nothing", corev1.LabelHostname)

	for i := range 3 {
		x.ApplyNode(makeNode(i, "a"), nil)
	}
	x.ApplyPod(makePod("p", 1, "n0"), nil)
	x.ApplyPod(makePod("q", 1, ""), nil)
	x.Unreserve("q-uid-1")
	x.ApplyService(makeService("backend", nil), nil)
	x.ApplyService(makeService("listed", nil), nil)
	x.ApplyEndpointSlice(makeSlice("e", "listed", discoveryv1.AddressTypeIPv4), nil)
	if len(x.namespaces)+len(x.podsByUID)+len(x.nodes)+len(x.keyUses)+len(x.groups) != 0 {
		t.Errorf("left: namespaces %v, pods %v, nodes %v, keys %v, groups %v", x.namespaces, x.podsByUID, x.nodes, x.keyUses, x.groups)
	}
}

// TestObjectsWithoutVersions: a simulation has neither UIDs for nodes nor versions.
func TestObjectsWithoutVersions(t *testing.T) {
	x := newInformed()
	bare := func(zone string) *corev1.Node {
		n := makeNode(0, zone)
		n.UID, n.ResourceVersion = "", ""
		return n
	}
	unversioned := func(on string) *corev1.Pod {
		p := makePod("p", 1, on)
		p.ResourceVersion = ""
		return p
	}
	x.ApplyService(nil, makeService("backend", map[string]string{"app": "backend"}))
	x.ApplyNode(nil, bare("a"))
	x.ApplyNode(bare("a"), nil)
	x.ApplyNode(nil, bare("b"))
	x.ApplyPod(nil, unversioned(""))
	x.Reserve(unversioned(""), "n0")
	x.ApplyPod(unversioned(""), unversioned("n0"))
	view, _ := x.Lookup("shop", "shop", "backend", corev1.LabelTopologyZone)
	if got := view.Within(corev1.LabelTopologyZone, "b"); got != 1 {
		t.Errorf("want 1 peer in zone b, got %d", got)
	}
	x.ApplyPod(unversioned("n0"), unversioned(""))
	if view, _ = x.Lookup("shop", "shop", "backend"); view.Total() != 0 {
		t.Errorf("a pod that lost its node still has its reservation")
	}
}

// TestRelabeled: the index tells of each node that came, went or got other labels, and
// of no heartbeat, and says so where it has forgotten some.
func TestRelabeled(t *testing.T) {
	x := newInformed()
	var told uint64
	expect := func(when string, want ...string) {
		t.Helper()
		nodes, now, ok := x.Relabeled(told)
		if diff := cmp.Diff(want, nodes, cmpopts.EquateEmpty()); !ok || diff != "" {
			t.Errorf("%s: all known %t (-want,+got):\n%s", when, ok, diff)
		}
		told = now
	}
	expect("before anything happened")
	a, b := makeNode(0, "a"), makeNode(1, "a")
	x.ApplyNode(nil, a)
	x.ApplyNode(nil, b)
	expect("two came", "n0", "n1")
	heartbeat := b.DeepCopy()
	heartbeat.Annotations = map[string]string{"at": "noon"}
	x.ApplyNode(b, heartbeat)
	expect("a heartbeat")
	moved := makeNode(0, "b")
	x.ApplyNode(a, moved)
	x.ApplyNode(heartbeat, nil)
	x.SyncNode("n1") // told again
	expect("one was relabeled, one went", "n0", "n1")

	states := [2]*corev1.Node{moved, a}
	for i := range 3 * maxRelabeled {
		x.ApplyNode(states[i%2], states[(i+1)%2])
	}
	if nodes, _, ok := x.Relabeled(told); ok || nodes != nil {
		t.Errorf("of %d changes %d nodes are told of as if they were all", 3*maxRelabeled, len(nodes))
	}
	if len(x.relabeled) > 2*maxRelabeled {
		t.Errorf("%d changes are remembered", len(x.relabeled))
	}
	told = x.relabellings - 2
	expect("the last two", "n0", "n0")
}
