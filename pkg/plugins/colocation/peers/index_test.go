// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"
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

// TestPeers has what is worth an example; TestHistories has all of it.
func TestPeers(t *testing.T) {
	type step = func(x *informed)
	pod := func(name string, incarnation int, on string, change ...func(*corev1.Pod)) step {
		object := makePod(name, incarnation, on)
		for _, c := range change {
			object = changed(object, c)
		}
		return func(x *informed) { x.ApplyPod(nil, object) }
	}
	podGone := func(name string, incarnation int) step {
		return func(x *informed) { x.ApplyPod(makePod(name, incarnation, "n0"), nil) }
	}
	node := func(i int, zone string) step {
		return func(x *informed) { x.ApplyNode(nil, changed(makeNode(i, zone), func(*corev1.Node) {})) }
	}
	backend := makeService("backend", map[string]string{"app": "backend"})
	service := func(change func(*corev1.Service)) step {
		return func(x *informed) { x.ApplyService(nil, changed(backend, change)) }
	}
	selectorless := service(func(s *corev1.Service) { s.Spec.Selector = nil })
	lists := func(slice, service string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) step {
		return func(x *informed) { x.ApplyEndpointSlice(nil, makeSlice(slice, service, family, endpoints...)) }
	}
	sliceGone := func(name string) step {
		return func(x *informed) {
			x.ApplyEndpointSlice(makeSlice(name, "backend", discoveryv1.AddressTypeIPv4), nil)
		}
	}
	reserve := func(x *informed) { x.Reserve(makePod("p", 1, "n0"), "n0") }
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	terminating, elsewhere := nodeEndpoint("n1"), podEndpoint("p", "p-uid-1")
	terminating.Conditions.Terminating = ptr.To(true)
	elsewhere.TargetRef.Namespace, elsewhere.NodeName = "bank", ptr.To("n0")
	none := map[string]int{}
	tests := []struct {
		name string
		// history is told twice: once before anybody asks, and once while the Service
		// is looked up after each step.
		history []step
		// want are the peers by node, and wantZones by zone; nil is a Service that is
		// not there.
		want, wantZones map[string]int
	}{
		{
			name:    "two pods in a zone and one in another",
			history: []step{pod("p", 1, "n0"), pod("q", 1, "n1"), pod("r", 1, "n2")},
			want:    map[string]int{"n0": 1, "n1": 1, "n2": 1}, wantZones: map[string]int{"a": 2, "b": 1},
		},
		{
			name:    "an ExternalName that has a selector",
			history: []step{pod("p", 1, "n0"), service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
			want:    none, wantZones: none,
		},
		{
			name:    "a reservation of a pod that is deleted, before and after",
			history: []step{pod("p", 1, ""), reserve, podGone("p", 1), reserve, pod("p", 2, ""), reserve},
			want:    none, wantZones: none,
		},
		{
			name: "pods that terminate, succeed and fail",
			history: []step{
				pod("p", 1, "n0"), pod("q", 1, "n1"), pod("r", 1, "n2"),
				pod("p", 1, "n0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
				pod("q", 1, "n1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
				pod("r", 1, "n2", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			},
			want: none, wantZones: none,
		},
		{
			name: "an old event of a pod that is gone, told after 10,000 deletions",
			history: []step{pod("p", 1, "n0"), podGone("p", 1), func(x *informed) {
				for i := range 10_000 {
					podGone(fmt.Sprintf("other-%d", i), 1)(x)
				}
			}, func(x *informed) { x.SyncPod("shop", "p") }},
			want: none, wantZones: none,
		},
		{
			name: "etcd is restored, and versions begin anew",
			history: []step{
				pod("p", 1000, "n0"), pod("p", 1, "n2"),
				func(x *informed) {
					x.ApplyNode(nil, changed(makeNode(2, "z"), func(n *corev1.Node) { n.ResourceVersion = "999999" }))
				},
				node(2, "b"),
			},
			want: map[string]int{"n2": 1}, wantZones: map[string]int{"b": 1},
		},
		{name: "a node that comes after its pods", history: []step{pod("p", 1, "n7"), node(7, "b")}, want: map[string]int{"n7": 1}, wantZones: map[string]int{"b": 1}},
		{
			name: "endpoints of a Service without a selector, before and after their pods",
			history: []step{
				selectorless, pod("p", 1, "n0"), lists("e", "backend", v4, podEndpoint("p", "p-uid-1"), podEndpoint("q", "")), pod("q", 1, "n2"),
			},
			want: map[string]int{"n0": 1, "n2": 1}, wantZones: map[string]int{"a": 1, "b": 1},
		},
		{
			name: "a dual-stack Service lists everything twice",
			history: []step{
				selectorless, pod("p", 1, "n0"),
				lists("e4", "backend", v4, podEndpoint("p", "p-uid-1"), nodeEndpoint("n1"), nodeEndpoint("n1")),
				lists("e6", "backend", v6, podEndpoint("p", "p-uid-1"), nodeEndpoint("n1"), nodeEndpoint("n1")),
			},
			want: map[string]int{"n0": 1, "n1": 2}, wantZones: map[string]int{"a": 3},
		},
		{
			name: "an endpoint that terminates, one of another namespace, and one that is nowhere",
			history: []step{
				selectorless, pod("p", 1, "n0", func(p *corev1.Pod) { p.Namespace = "bank" }),
				lists("e", "backend", v4, terminating, elsewhere, podEndpoint("p", "p-uid-1"), discoveryv1.Endpoint{}),
			},
			want: none, wantZones: none,
		},
		{
			name: "an EndpointSlice that goes over to another Service, one that leaves the watch by a label, and one that comes back",
			history: []step{
				selectorless, lists("e", "backend", v4, nodeEndpoint("n0")), lists("f", "backend", v4, nodeEndpoint("n1")), lists("g", "backend", v4, nodeEndpoint("n2")),
				lists("e", "other", v4, nodeEndpoint("n0")), sliceGone("f"), sliceGone("g"), lists("g", "backend", v4, nodeEndpoint("n2")),
			},
			want: map[string]int{"n2": 1}, wantZones: map[string]int{"b": 1},
		},
		{
			name: "endpoints with a zone and no node, of both families",
			history: []step{
				selectorless, lists("e4", "backend", v4, zoneEndpoint("a"), zoneEndpoint("a"), nodeEndpoint("n2")), lists("e6", "backend", v6, zoneEndpoint("a")),
			},
			want: map[string]int{"n2": 1}, wantZones: map[string]int{"a": 2, "b": 1},
		},
	}
	for _, tt := range tests {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/watched=%t", tt.name, watched), func(t *testing.T) {
				x := newShop()
				for _, step := range tt.history {
					if watched {
						x.Lookup("shop", "shop", "backend", corev1.LabelTopologyZone, corev1.LabelHostname)
					}
					step(x)
				}
				view, found := x.Lookup("shop", "shop", "backend", corev1.LabelTopologyZone, corev1.LabelHostname)
				if found != (tt.want != nil) {
					t.Fatalf("want found %t, got %t", tt.want != nil, found)
				}
				if !found {
					return
				}
				if diff := cmp.Diff(tt.want, maps.Collect(view.Level(corev1.LabelHostname).All)); diff != "" {
					t.Errorf("peers by node (-want,+got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.wantZones, maps.Collect(view.Level(corev1.LabelTopologyZone).All)); diff != "" {
					t.Errorf("peers by zone (-want,+got):\n%s", diff)
				}
			})
		}
	}
}

func podEndpoint(name string, uid types.UID) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name, UID: uid}}
}

func nodeEndpoint(name string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{NodeName: ptr.To(name)}
}

func zoneEndpoint(zone string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Zone: ptr.To(zone)}
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

// TestRelabelled: the index tells of each node that came, went or got other labels, and
// of no heartbeat, and says so where it has forgotten some.
func TestRelabelled(t *testing.T) {
	x := newInformed()
	var told uint64
	expect := func(when string, want ...string) {
		t.Helper()
		nodes, now, ok := x.Relabelled(told)
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
	expect("one was relabelled, one went", "n0", "n1")

	states := [2]*corev1.Node{moved, a}
	for i := range 3 * maxRelabelled {
		x.ApplyNode(states[i%2], states[(i+1)%2])
	}
	if nodes, _, ok := x.Relabelled(told); ok || nodes != nil {
		t.Errorf("of %d changes %d nodes are told of as if they were all", 3*maxRelabelled, len(nodes))
	}
	if len(x.relabelled) > 2*maxRelabelled {
		t.Errorf("%d changes are remembered", len(x.relabelled))
	}
	told = x.relabellings - 2
	expect("the last two", "n0", "n0")
}
