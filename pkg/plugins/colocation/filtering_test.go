// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func terminating(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{}, []string{"example.com/slow"}
	return pod
}

func TestFilter(t *testing.T) {
	backendInA := []*corev1.Pod{makePod("backend-1", "backend", "a1")}
	const noPeer = "node(s) had no pod of Service shop/backend in the same topology.kubernetes.io/zone"
	tests := []struct {
		name string
		args *config.ColocationArgs
		pods []*corev1.Pod
		// services beside shop/backend.
		services []runtime.Object
		// moreNodes beside threeZones.
		moreNodes []*corev1.Node
		pod       *corev1.Pod
		// want are the nodes that pass, and wantReason what every other says.
		want       []string
		wantReason string
	}{
		{
			name: "within the zone of the only peer", pods: backendInA,
			pod: asking(with, "backend", require, zone), want: []string{"a1", "a2"}, wantReason: noPeer,
		},
		{
			name: "on the node of the only peer", pods: backendInA,
			pod: asking(with, "backend", require, hostname), want: []string{"a1"},
			wantReason: "node(s) had no pod of Service shop/backend in the same kubernetes.io/hostname",
		},
		{
			name: "a preference refuses nothing", pods: backendInA,
			pod: asking(with, "backend"), want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name: "peers in two zones", pods: append(backendInA, makePod("backend-2", "backend", "c2")),
			pod: asking(with, "backend", require, zone), want: []string{"a1", "a2", "c1", "c2"}, wantReason: noPeer,
		},
		{
			name: "every Service binds",
			pods: append(backendInA, makePod("cache-1", "cache", "a2"), makePod("cache-2", "cache", "b1")), services: objects(makeService("shop", "cache")),
			pod: asking(with, "backend,cache", require, zone), want: []string{"a1", "a2"},
		},
		{
			name: "a terminating pod attracts nobody", pods: []*corev1.Pod{terminating(makePod("backend-1", "backend", "a1")), makePod("backend-2", "backend", "b1")},
			pod: asking(with, "backend", require, zone), want: []string{"b1", "b2"}, wantReason: noPeer,
		},
		{
			name: "a node without the label", pods: backendInA, moreNodes: []*corev1.Node{makeNode("nowhere", "")},
			pod: asking(with, "backend", require, zone), want: []string{"a1", "a2"},
		},
		{
			name: "the first of pods that want to be together", pod: annotated(makePod("pending", "backend", ""), with, "backend", require, zone),
			want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name: "the second of them", pods: backendInA, pod: annotated(makePod("pending", "backend", ""), with, "backend", require, zone),
			want: []string{"a1", "a2"}, wantReason: noPeer,
		},
		{
			name: "the first of them, where one node lacks the label", moreNodes: []*corev1.Node{makeNode("nowhere", "")},
			pod:  annotated(makePod("pending", "backend", ""), with, "backend", require, zone),
			want: []string{"a1", "a2", "b1", "b2", "c1", "c2"}, wantReason: "node(s) had no label topology.kubernetes.io/zone, the topology key that is required for Service shop/backend",
		},
		{
			name: "the first of them, while another is where the label is not",
			pods: []*corev1.Pod{makePod("backend-1", "backend", "nowhere")}, moreNodes: []*corev1.Node{makeNode("nowhere", "")},
			pod:  annotated(makePod("pending", "backend", ""), with, "backend", require, zone),
			want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name: "the first of one group is near the other all the same", pods: []*corev1.Pod{makePod("cache-1", "cache", "b1")},
			services: objects(makeService("shop", "cache")),
			pod:      annotated(makePod("pending", "backend", ""), with, "backend,cache", require, zone),
			want:     []string{"b1", "b2"}, wantReason: "node(s) had no pod of Service shop/cache in the same topology.kubernetes.io/zone",
		},
		{
			name: "the first of two groups at once",
			services: objects(&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", UID: "all"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}},
			}),
			pod:  annotated(makePod("pending", "backend", ""), with, "backend,all", require, zone),
			want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name:     "a preference for a Service without a pod, one that does not exist, and one that forbids it",
			services: objects(makeService("shop", "cache"), makeService("data", "db")),
			pod:      asking(with, "cache,missing,data/db"), want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name: "by a rule", pods: backendInA,
			args: newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("backend"), RequiredTopologyKey: zone})),
			pod:  asking(), want: []string{"a1", "a2"}, wantReason: noPeer,
		},
		{
			name: "a rule for other pods", pods: backendInA,
			args: newArgs(withRules(config.ColocationRule{PodSelector: appSelector("web"), Services: near("backend"), RequiredTopologyKey: zone})),
			pod:  asking(), want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name: "a rule for this namespace", pods: backendInA,
			args: newArgs(withRules(config.ColocationRule{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}, Services: near("backend"), RequiredTopologyKey: zone,
			})),
			pod: asking(), want: []string{"a1", "a2"}, wantReason: noPeer,
		},
		{
			name: "a rule for another namespace", pods: backendInA,
			args: newArgs(withRules(config.ColocationRule{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "y"}}, Services: near("backend"), RequiredTopologyKey: zone,
			})),
			pod: asking(), want: []string{"a1", "a2", "b1", "b2", "c1", "c2"},
		},
		{
			name: "a rule and an annotation, both of which bind",
			pods: append(backendInA, makePod("cache-1", "cache", "a2")), services: objects(makeService("shop", "cache")),
			args: newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("backend"), RequiredTopologyKey: zone})),
			pod:  asking(with, "cache", require, hostname), want: []string{"a2"},
		},
		{
			name: "another namespace's Service that allows it",
			pods: func() []*corev1.Pod {
				pod := makePod("db-1", "db", "b2")
				pod.Namespace = "data"
				return []*corev1.Pod{pod}
			}(),
			services: objects(annotated(makeService("data", "db"), allow, "other, shop")),
			pod:      asking(with, "data/db", require, zone), want: []string{"b1", "b2"},
			wantReason: "node(s) had no pod of Service data/db in the same topology.kubernetes.io/zone",
		},
		{
			name: "a Service without a selector, by its EndpointSlices",
			pods: []*corev1.Pod{makePod("vm-1", "vm", "c1")},
			services: objects(
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "legacy", UID: "legacy", ResourceVersion: "1"}},
				&discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "legacy-1", UID: "slice", ResourceVersion: "1", Labels: map[string]string{discoveryv1.LabelServiceName: "legacy"}},
					AddressType: discoveryv1.AddressTypeIPv4,
					Endpoints: []discoveryv1.Endpoint{
						{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "vm-1", Namespace: "shop"}},
						{Addresses: []string{"10.0.0.2"}, NodeName: ptr.To("b2")},
					},
				}),
			pod: asking(with, "legacy", require, hostname), want: []string{"b2", "c1"},
		},
		{
			name: "endpoints with a zone and no node",
			services: objects(
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "managed", UID: "managed", ResourceVersion: "1"}},
				&discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "managed-1", UID: "slice", ResourceVersion: "1", Labels: map[string]string{discoveryv1.LabelServiceName: "managed"}},
					AddressType: discoveryv1.AddressTypeIPv4,
					Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Zone: ptr.To("c")}},
				}),
			pod: asking(with, "managed", require, zone), want: []string{"c1", "c2"},
			wantReason: "node(s) had no pod of Service shop/managed in the same topology.kubernetes.io/zone",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			profile, _ := startProfile(t, tt.args, schedtest.Options{
				Nodes: append(threeZones(), tt.moreNodes...), Pods: tt.pods,
				Namespaces: []*corev1.Namespace{makeNamespace("shop", map[string]string{"team": "x"})},
				Objects:    append(objects(makeService("shop", "backend")), tt.services...),
			})
			want := map[string]bool{}
			for _, name := range tt.want {
				want[name] = true
			}
			if diff := cmp.Diff(want, passing(t, profile, tt.pod)); diff != "" {
				t.Errorf("nodes that pass (-want,+got):\n%s", diff)
			}
			if tt.wantReason == "" {
				return
			}
			verdicts, _ := profile.Filter(t.Context(), t, tt.pod)
			for node, reason := range verdicts {
				if !want[node] && reason != tt.wantReason {
					t.Errorf("node %s: want %q, got %q", node, tt.wantReason, reason)
				}
			}
		})
	}
}

func TestNodeWithoutTopologyLabel(t *testing.T) {
	profile, _ := startProfile(t, newArgs(), schedtest.Options{
		Nodes: []*corev1.Node{makeNode("a1", "a"), makeNode("nowhere", "")}, Pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")},
		Objects: objects(makeService("shop", "backend")),
	})
	verdicts, _ := profile.Filter(t.Context(), t, asking(with, "backend", require, zone))
	want := map[string]string{"a1": "", "nowhere": "node(s) had no label topology.kubernetes.io/zone, the topology key that is required for Service shop/backend"}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("verdicts (-want,+got):\n%s", diff)
	}
}

func TestPreFilterRejections(t *testing.T) {
	const (
		waiting   = "waiting for a Service that the pod must be near: "
		noPod     = "Service shop/cache exists, and none of its pods has a node yet"
		missing   = "Service shop/missing does not exist"
		forbidden = "no Service data/%s lets pods of namespace shop near it (check the name, or ask its owner for the annotation berth.dev/allow-colocation-from)"
	)
	tests := []struct {
		name string
		args *config.ColocationArgs
		pod  *corev1.Pod
		want string
	}{
		{
			name: "malformed", args: newArgs(), pod: asking(with, "a%d b"),
			want: `annotation berth.dev/colocate-with: "a\x25d b" names no Service: write name or namespace/name, each a DNS label of lower-case letters, digits and '-', with commas between`,
		},
		{
			name: "a required level that no node has", args: newArgs(), pod: asking(with, "backend", require, "example.com/rack"),
			want: `no node has the label "example.com/rack" of annotation berth.dev/colocate-required-topology-key, by which the pod must be near a Service: correct the key, or label the nodes`,
		},
		{
			name: "the same by a rule", args: newArgs(withRules(config.ColocationRule{Services: near("backend"), RequiredTopologyKey: "example.com/rack"})), pod: asking(),
			want: `no node has the label "example.com/rack" of Colocation rules[0].requiredTopologyKey, by which the pod must be near a Service: correct the key, or label the nodes`,
		},
		{name: "a Service without a pod", args: newArgs(), pod: asking(with, "cache", require, zone), want: waiting + noPod},
		{name: "one that does not exist", args: newArgs(), pod: asking(with, "missing", require, zone), want: waiting + missing},
		{name: "one that does not allow it", args: newArgs(), pod: asking(with, "data/db", require, zone), want: waiting + fmt.Sprintf(forbidden, "db")},
		{name: "one of another namespace that does not exist looks the same", args: newArgs(), pod: asking(with, "data/nodb", require, zone), want: waiting + fmt.Sprintf(forbidden, "nodb")},
		{name: "one whose pods are where the label is not", args: newArgs(), pod: asking(with, "astray", require, zone), want: waiting + "Service shop/astray has pods, and none of them is on a node with the label topology.kubernetes.io/zone"},
		{name: "several", args: newArgs(), pod: asking(with, "backend,cache,missing", require, zone), want: waiting + noPod + "; " + missing},
		{
			name: "more than there is room for", args: newArgs(), pod: asking(with, "cache,missing,m1,m2,m3", require, zone),
			want: waiting + noPod + "; " + missing + "; Service shop/m1 does not exist; and 2 more",
		},
		{
			name: "by a rule", args: newArgs(withRules(config.ColocationRule{Services: near("cache"), RequiredTopologyKey: zone})), pod: asking(),
			want: waiting + noPod,
		},
		{name: "the first of one group waits for the other", args: newArgs(), pod: annotated(makePod("pending", "cache", ""), with, "cache,missing", require, zone), want: waiting + missing},
		{
			name: "annotations that had other names", args: newArgs(), pod: asking(with, "backend", "berth.dev/colocate-prefer", zone, "berth.dev/colocate-require-within", zone),
			want: "annotation berth.dev/colocate-prefer is called berth.dev/colocate-topology-keys now: rename it; " +
				"annotation berth.dev/colocate-require-within is called berth.dev/colocate-required-topology-key now: rename it",
		},
		{name: "one of them alone", args: newArgs(), pod: asking("berth.dev/colocate-prefer", zone), want: "annotation berth.dev/colocate-prefer is called berth.dev/colocate-topology-keys now: rename it"},
		{
			name: "a namespace that has not arrived", pod: asking(),
			args: newArgs(withRules(config.ColocationRule{Services: near("backend"), NamespaceSelector: appSelector("x")})),
			want: `namespace "shop" is not known to the scheduler yet, and a namespaceSelector of Colocation needs its labels`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := makePod("db-1", "db", "b2")
			db.Namespace = "data"
			profile, _ := startProfile(t, tt.args, schedtest.Options{
				Nodes: append(threeZones(), makeNode("nowhere", "")), Pods: []*corev1.Pod{makePod("backend-1", "backend", "a1"), db, makePod("astray-1", "astray", "nowhere")},
				Objects: objects(makeService("shop", "backend"), makeService("shop", "cache"), makeService("data", "db"), makeService("shop", "astray")),
			})
			_, _, status := runPreFilter(t, profile, tt.pod)
			if status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("want the pod rejected for good, got %v", status)
			}
			if got := status.Message(); got != tt.want {
				t.Errorf("want %q,\ngot  %q", tt.want, got)
			}
		})
	}
}

// What cannot concern the plugin must cost nothing further.
func TestSkips(t *testing.T) {
	opts := schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")},
		Objects: objects(makeService("shop", "backend"), makeService("shop", "cache")),
	}
	tests := []struct {
		name string
		args *config.ColocationArgs
		pod  *corev1.Pod
		// wantFilter and wantScore are whether they are called.
		wantFilter, wantScore bool
	}{
		{name: "a pod that names no Service", args: newArgs(), pod: asking()},
		{name: "a rule for others", args: newArgs(withRules(config.ColocationRule{PodSelector: appSelector("x"), Services: near("backend")})), pod: asking()},
		{name: "a Service without a peer", args: newArgs(), pod: asking(with, "cache")},
		{name: "the first of its group", args: newArgs(), pod: annotated(makePod("pending", "cache", ""), with, "cache", require, zone), wantFilter: true},
		{name: "a preference", args: newArgs(), pod: asking(with, "backend"), wantScore: true},
		{name: "a requirement", args: newArgs(), pod: asking(with, "backend", require, zone), wantFilter: true, wantScore: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, _ := startProfile(t, tt.args, opts)
			if got := !profile.Skips(t.Context(), t, tt.pod); got != tt.wantFilter {
				t.Errorf("Filter is called: %t", got)
			}
			if got := len(profile.Scores(t.Context(), t, tt.pod)) > 0; got != tt.wantScore {
				t.Errorf("Score is called: %t", got)
			}
		})
	}
}

// Preemption must not evict the very peer that the pod needs.
func TestDryRuns(t *testing.T) {
	profile, _ := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{makePod("backend-1", "backend", "a1"), makePod("other-1", "other", "a1")},
		Objects: objects(makeService("shop", "backend")),
	})
	pod := asking(with, "backend", require, zone)
	verdict := func(state fwk.CycleState, node fwk.NodeInfo) string {
		return profile.RunFilterPlugins(t.Context(), state, pod, node).Message()
	}
	node := func(name string) fwk.NodeInfo {
		info, err := profile.SnapshotSharedLister().NodeInfos().Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	const rejected = "node(s) had no pod of Service shop/backend in the same topology.kubernetes.io/zone"
	original := profile.NewCycle(t.Context(), t, pod)
	podInfo := map[string]fwk.PodInfo{}
	for _, info := range node("a1").GetPods() {
		podInfo[info.GetPod().Name] = info
	}

	state := original.Clone()
	if status := profile.RunPreFilterExtensionRemovePod(t.Context(), state, pod, podInfo["other-1"], node("a1")); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := verdict(state, node("a1")); got != "" {
		t.Errorf("without a pod that is no peer: %q", got)
	}
	if status := profile.RunPreFilterExtensionRemovePod(t.Context(), state, pod, podInfo["backend-1"], node("a1")); !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, name := range []string{"a1", "a2", "b1"} {
		if got := verdict(state, node(name)); got != rejected {
			t.Errorf("node %s without the only peer: %q", name, got)
		}
	}
	again := state.Clone()
	if status := profile.RunPreFilterExtensionAddPod(t.Context(), again, pod, podInfo["backend-1"], node("a1")); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := verdict(again, node("a2")); got != "" {
		t.Errorf("with the peer reprieved: %q", got)
	}
	if got := verdict(state, node("a2")); got != rejected {
		t.Errorf("a clone changed what it was made from: %q", got)
	}
	if status := profile.RunPreFilterExtensionAddPod(t.Context(), state, pod, podInfo["backend-1"], node("b1")); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := verdict(state, node("b2")); got != "" {
		t.Errorf("with a nominated peer in its zone: %q", got)
	}
	if got := verdict(original, node("a2")); got != "" {
		t.Errorf("a clone changed the state of the cycle: %q", got)
	}
}

// Two pods that are scheduled one after the other see each other.
func TestReserve(t *testing.T) {
	first := makePod("backend-1", "backend", "")
	profile, pl := startProfile(t, newArgs(), schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{first}, Objects: objects(makeService("shop", "backend"))})
	pod := asking(with, "backend", require, zone)
	waits := func(when string) {
		t.Helper()
		if _, _, status := runPreFilter(t, profile, pod); status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Fatalf("%s: want the pod to wait, got %v", when, status)
		}
	}
	waits("before there is a peer")
	assumed := first.DeepCopy()
	assumed.Spec.NodeName = "b1"
	if status := profile.RunReservePluginsReserve(t.Context(), framework.NewCycleState(), assumed, "b1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if diff := cmp.Diff(map[string]bool{"b1": true, "b2": true}, passing(t, profile, pod)); diff != "" {
		t.Errorf("after Reserve (-want,+got):\n%s", diff)
	}
	for range 2 {
		profile.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), assumed, "b1")
	}
	waits("after Unreserve")
	pl.Unreserve(t.Context(), nil, makePod("never", "x", ""), "b1")
}

// The view of a cycle is taken after the snapshot, so the two may differ by a pod: a
// peer that the view no longer counts takes nothing away from a node when preemption
// removes it, and one that it counts already adds nothing as a nominated pod.
func TestDryRunsOfPodsThatTheViewCountsOtherwise(t *testing.T) {
	leaving, staying := makePod("backend-1", "backend", "a1"), makePod("backend-2", "backend", "a2")
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{leaving, staying}, Objects: objects(makeService("shop", "backend")),
	})
	// The snapshot still has it; the informer has seen that it terminates.
	gone := terminating(version(leaving.DeepCopy(), 2))
	store(t, profile.SharedInformerFactory().Core().V1().Pods().Informer(), gone)
	pl.instance.podChanged(leaving, gone)
	pod := asking(with, "backend", require, zone)
	node := func(name string) fwk.NodeInfo {
		info, err := profile.SnapshotSharedLister().NodeInfos().Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	only := func(name string) fwk.PodInfo { return node(name).GetPods()[0] }
	fits := func(state fwk.CycleState, name string) bool {
		return profile.RunFilterPlugins(t.Context(), state, pod, node(name)).IsSuccess()
	}
	state := profile.NewCycle(t.Context(), t, pod).Clone()
	profile.RunPreFilterExtensionRemovePod(t.Context(), state, pod, only("a1"), node("a1"))
	if !fits(state, "a1") {
		t.Error("a peer that does not count any more was subtracted: backend-2 is still in the zone")
	}
	state = profile.NewCycle(t.Context(), t, pod).Clone()
	profile.RunPreFilterExtensionAddPod(t.Context(), state, pod, only("a2"), node("a2"))
	profile.RunPreFilterExtensionRemovePod(t.Context(), state, pod, only("a2"), node("a2"))
	if fits(state, "a1") {
		t.Error("a peer that counted already was added: without it, the zone has none")
	}
}
