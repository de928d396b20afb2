// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestHistories runs long random histories: objects of every kind come, change, go
// and come back under the same name; an informer's store follows the API server,
// some changes behind or all at once after a broken watch, and etcd is restored from
// a backup; events are passed on at once, late, twice or never, of any name and in
// any order, by handlers and hints alike; nodes are reserved, given, and taken back.
// After each step every answer of the index is compared with the model's, and views
// from earlier with what they said then; and in the end with the API server.
func TestHistories(t *testing.T) {
	var seen coverage
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := newHistory(t, seed)
			for range 1000 {
				h.step()
				h.check()
			}
			h.settle()
			h.check()
			h.finish()
			seen.add(h.seen)
		})
	}
	t.Logf("%+v", seen)
	// A history in which nothing happens proves nothing.
	if !t.Failed() && (seen.peers < 50_000 || seen.listed < 10_000 || seen.zoned < 500 || seen.reserved < 200 || seen.kept < 50 || seen.stale < 1000 || seen.reborn < 200 || seen.restored < 16) {
		t.Errorf("the histories show little: %+v", seen)
	}
}

// coverage counts what happened.
type coverage struct {
	peers    int // peers in all answers
	listed   int // of those, behind Services without a selector
	zoned    int // of those, in a zone and on no node
	reserved int // calls of Reserve
	kept     int // reservations whose pod got a node
	stale    int // events of an object that the store has another version of
	reborn   int // objects that came again under the name of another
	restored int // restores of etcd
}

func (c *coverage) add(other coverage) {
	c.peers += other.peers
	c.listed += other.listed
	c.zoned += other.zoned
	c.reserved += other.reserved
	c.kept += other.kept
	c.stale += other.stale
	c.reborn += other.reborn
	c.restored += other.restored
}

// change is a change of one object in the API; updated is nil for a deletion.
type change struct {
	kind, namespace, name string
	updated               metav1.Object
}

type history struct {
	t     *testing.T
	rand  *rand.Rand
	index *informed
	model *model
	seen  coverage

	// api is what the API server has, by kind, namespace and name; backup what it
	// had once.
	api, backup map[string]metav1.Object
	born        map[string]bool
	version     int
	uids        int
	// log has all changes; those from pending on are not in the informers' stores.
	log     []change
	pending int
	kept    []keptView
}

// keptView is a View, and what it said when it was taken.
type keptView struct {
	view *View
	keys []string
	said *answer
}

const (
	podNames     = 12
	nodeNames    = 5
	serviceNames = 4
	sliceNames   = 4
)

var (
	namespaces = []string{"shop", "bank"}
	// topologyKeys are more than the index keeps for a Service.
	topologyKeys = func() (keys []string) {
		for i := range MaxTopologyKeys + 4 {
			keys = append(keys, fmt.Sprintf("level-%d", i))
		}
		return append(keys, corev1.LabelTopologyZone)
	}()
)

func newHistory(t *testing.T, seed uint64) *history {
	return &history{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), index: newInformed(), model: newModel(),
		api: map[string]metav1.Object{}, born: map[string]bool{},
	}
}

func (h *history) oneOf(n int) bool { return h.rand.IntN(n) == 0 }

func (h *history) pick(of []string) string { return of[h.rand.IntN(len(of))] }

func (h *history) name(prefix string, n int) string {
	return prefix + strconv.Itoa(h.rand.IntN(n))
}

// step changes something, or tells of something.
func (h *history) step() {
	switch n := h.rand.IntN(20); {
	case n < 4:
		h.mutate("pod", h.pick(namespaces), h.name("p", podNames))
	case n < 5:
		h.mutate("node", "", h.name("n", nodeNames))
	case n < 6:
		h.mutate("service", h.pick(namespaces), h.name("s", serviceNames))
	case n < 8:
		h.mutate("slice", h.pick(namespaces), h.name("e", sliceNames))
	case n < 10:
		h.schedule()
	case n < 11:
		h.unreserve()
	case n < 16:
		h.advance()
	case n < 19:
		h.tellAny()
	default:
		h.breakWatch()
	}
}

// mutate lets an object come, change, or go.
func (h *history) mutate(kind, namespace, name string) {
	key := objectKey(kind, namespace, name)
	old := h.api[key]
	if old != nil && h.oneOf(6) {
		h.write(kind, namespace, name, nil)
		return
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if old != nil {
		meta.UID = old.GetUID()
	} else {
		h.uids++
		meta.UID = types.UID(fmt.Sprintf("uid-%d", h.uids))
	}
	switch kind {
	case "pod":
		before, _ := old.(*corev1.Pod)
		h.write(kind, namespace, name, h.newPod(meta, before))
	case "node":
		meta.Labels = map[string]string{}
		for _, key := range topologyKeys {
			if !h.oneOf(4) {
				meta.Labels[key] = h.name("v", 3)
			}
		}
		if old != nil && h.oneOf(2) {
			meta.Labels = old.GetLabels() // a heartbeat
		}
		meta.Labels[corev1.LabelHostname] = name
		h.write(kind, namespace, name, &corev1.Node{ObjectMeta: meta})
	case "service":
		h.write(kind, namespace, name, h.newService(meta))
	case "slice":
		h.write(kind, namespace, name, h.newSlice(meta))
	}
}

func (h *history) newPod(meta metav1.ObjectMeta, before *corev1.Pod) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta}
	if before != nil {
		pod.Spec.NodeName, pod.DeletionTimestamp, pod.Status.Phase = before.Spec.NodeName, before.DeletionTimestamp, before.Status.Phase
		pod.Labels = before.Labels
	} else if h.oneOf(3) {
		pod.Spec.NodeName = h.name("n", nodeNames) // bound by somebody else
	}
	what := h.rand.IntN(12)
	switch {
	case before == nil || what < 4:
		pod.Labels = map[string]string{"app": h.name("a", 3)}
		if h.oneOf(2) {
			pod.Labels["tier"] = h.name("t", 2)
		}
	case what < 6:
		pod.DeletionTimestamp = &metav1.Time{}
	case what < 8:
		pod.Status.Phase = []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodRunning}[h.rand.IntN(3)]
	}
	return pod
}

func (h *history) newService(meta metav1.ObjectMeta) *corev1.Service {
	service := &corev1.Service{ObjectMeta: meta}
	if h.oneOf(2) {
		service.Annotations = map[string]string{
			names.AllowColocationFromAnnotation: h.pick([]string{"shop", "bank", "x, bank", "*", "ban*", "", " shop ,bank,", "*,"}),
		}
	}
	switch h.rand.IntN(8) {
	case 0, 1, 2:
	case 3:
		service.Spec.Selector = map[string]string{}
	case 4:
		service.Spec.Selector = map[string]string{"app": h.name("a", 3), "tier": h.name("t", 2)}
	default:
		service.Spec.Selector = map[string]string{"app": h.name("a", 3)}
	}
	if h.oneOf(8) {
		service.Spec.Type = corev1.ServiceTypeExternalName
	} else if h.oneOf(3) {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return service
}

func (h *history) newSlice(meta metav1.ObjectMeta) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta,
		AddressType: []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}[h.rand.IntN(2)],
	}
	// Few Services, so that one has several: of both families, or one too many.
	if !h.oneOf(10) {
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: h.name("s", serviceNames/2)}
	}
	for range h.rand.IntN(6) {
		e := discoveryv1.Endpoint{}
		if !h.oneOf(4) {
			e.NodeName = ptr.To(h.name("n", nodeNames))
		}
		if h.oneOf(2) {
			e.Zone = ptr.To(h.name("v", 3))
		}
		if h.oneOf(4) {
			e.Conditions.Terminating = ptr.To(h.oneOf(2))
		}
		if h.oneOf(2) {
			ref := &corev1.ObjectReference{Kind: "Pod", Name: h.name("p", podNames)}
			if h.oneOf(2) {
				ref.Namespace = h.pick(namespaces)
			}
			if pod := h.api[objectKey("pod", h.pick(namespaces), ref.Name)]; pod != nil && h.oneOf(2) {
				ref.UID = pod.GetUID()
			}
			if h.oneOf(8) {
				ref.Kind = "VirtualMachine"
			}
			e.TargetRef = ref
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return slice
}

// write is what the API server does; updated is nil for a deletion.
func (h *history) write(kind, namespace, name string, updated metav1.Object) {
	h.version++
	key := objectKey(kind, namespace, name)
	if updated == nil {
		delete(h.api, key)
	} else {
		updated.SetResourceVersion(strconv.Itoa(h.version))
		if h.api[key] == nil {
			if h.born[key] {
				h.seen.reborn++
			}
			h.born[key] = true
		}
		h.api[key] = updated
	}
	h.log = append(h.log, change{kind, namespace, name, updated})
	switch {
	case h.oneOf(100):
		h.backup = maps.Clone(h.api)
	case h.backup != nil && h.oneOf(200):
		h.restore()
	}
}

// restore brings the API server back to its backup, and its versions with it: those
// that come now were there before, and meant something else.
func (h *history) restore() {
	h.seen.restored++
	h.api, h.version = h.backup, h.version/2
	h.backup = nil
	h.breakWatch()
}

// advance lets the informers' stores take over the next change, and mostly passes
// the event on to the handler.
func (h *history) advance() {
	if h.pending == len(h.log) {
		return
	}
	c := h.log[h.pending]
	h.pending++
	h.store(c.kind, c.namespace, c.name, c.updated)
	if !h.oneOf(3) {
		h.tell(c)
	}
}

func (h *history) store(kind, namespace, name string, object metav1.Object) {
	if object != nil {
		h.index.put(kind, nil, object)
		return
	}
	h.index.put(kind, &metav1.ObjectMeta{Namespace: namespace, Name: name}, nil)
}

// tellAny passes on the event of any change that the stores have, as a handler that
// is behind or a queueing hint may.
func (h *history) tellAny() {
	if h.pending == 0 {
		return
	}
	at := h.rand.IntN(h.pending)
	if h.oneOf(2) {
		at = max(0, h.pending-1-h.rand.IntN(10))
	}
	h.tell(h.log[at])
}

// breakWatch lets the stores list everything anew, whatever they missed.
func (h *history) breakWatch() {
	h.pending = len(h.log)
	for _, c := range h.log {
		h.store(c.kind, c.namespace, c.name, h.api[objectKey(c.kind, c.namespace, c.name)])
	}
}

// settle lets the stores catch up and passes everything on.
func (h *history) settle() {
	h.breakWatch()
	for _, c := range h.log {
		h.tell(c)
	}
	if diff := cmp.Diff(len(h.api), len(h.model.known)); diff != "" {
		h.t.Fatalf("the model does not know what the API server has: %s", diff)
	}
	for key, object := range h.api {
		if h.model.known[key] != object {
			h.t.Fatalf("the model knows another version of %s", key)
		}
	}
	if drift := h.index.Drift(); drift != 0 {
		h.t.Fatalf("the index was told of everything, and its drift is %d", drift)
	}
}

// tell passes on an event: the name of what has changed.
func (h *history) tell(c change) {
	key := objectKey(c.kind, c.namespace, c.name)
	now := h.index.get(c.kind, c.namespace, c.name)
	if now != c.updated {
		h.seen.stale++
	}
	if pod, ok := now.(*corev1.Pod); ok && pod.Spec.NodeName != "" && h.model.reserved[pod.UID] != "" {
		h.seen.kept++
	}
	h.model.read(key, now)
	h.index.sync(c.kind, c.namespace, c.name)
}

// schedule reserves a node for a pod, and may bind it.
func (h *history) schedule() {
	namespace, name := h.pick(namespaces), h.name("p", podNames)
	key := objectKey("pod", namespace, name)
	// The scheduler may know another version than the store has by now.
	pod, _ := h.api[key].(*corev1.Pod)
	if pod == nil || pod.Spec.NodeName != "" {
		return
	}
	node := h.name("n", nodeNames)
	h.seen.reserved++
	stored := h.index.get("pod", namespace, name)
	h.model.read(key, stored)
	if p, ok := stored.(*corev1.Pod); ok && p.UID == pod.UID && p.Spec.NodeName == "" {
		h.model.reserved[pod.UID] = node
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	h.index.Reserve(assumed, node)
	if h.oneOf(2) {
		onNode := pod.DeepCopy()
		onNode.Spec.NodeName = node
		h.write("pod", namespace, name, onNode)
	}
}

// unreserve takes a reservation back, or none.
func (h *history) unreserve() {
	uids := slices.Sorted(maps.Keys(h.model.reserved))
	if len(uids) == 0 || h.oneOf(4) {
		uid := types.UID(fmt.Sprintf("uid-%d", h.rand.IntN(h.uids+1)))
		delete(h.model.reserved, uid)
		h.index.Unreserve(uid)
		return
	}
	uid := uids[h.rand.IntN(len(uids))]
	delete(h.model.reserved, uid)
	h.index.Unreserve(uid)
	h.index.Unreserve(uid)
}

// check compares all that the index can be asked.
func (h *history) check() {
	h.t.Helper()
	for _, namespace := range namespaces {
		for i := range serviceNames {
			name := fmt.Sprintf("s%d", i)
			for _, requester := range append([]string{"x"}, namespaces...) {
				h.checkService(requester, namespace, name)
			}
		}
	}
	for _, key := range topologyKeys {
		want := false
		for _, node := range h.model.all("node") {
			_, carries := node.GetLabels()[key]
			want = want || carries
		}
		if got := h.index.HasTopologyKey(key); got != want {
			h.t.Fatalf("step %d: key %s: want %t, got %t", len(h.log), key, want, got)
		}
	}
}

func (h *history) checkService(requester, namespace, name string) {
	h.t.Helper()
	keys := []string{corev1.LabelHostname}
	for range h.rand.IntN(4) {
		keys = append(keys, h.pick(topologyKeys))
	}
	want := h.model.lookup(requester, namespace, name, keys)
	view, found := h.index.Lookup(requester, namespace, name, keys...)
	if found != (want != nil) {
		h.t.Fatalf("%s/%s for %s: want found %t, got %t", namespace, name, requester, want != nil, found)
	}
	if !found {
		return
	}
	if diff := cmp.Diff(want, say(view, keys)); diff != "" {
		h.t.Fatalf("%s/%s for %s (-model,+index):\n%s", namespace, name, requester, diff)
	}
	h.seen.peers += want.Total
	onNodes := 0
	for _, peers := range want.Levels[corev1.LabelHostname] {
		onNodes += peers
	}
	h.seen.zoned += want.Total - onNodes
	service := h.model.believe(objectKey("service", namespace, name)).(*corev1.Service)
	if len(service.Spec.Selector) == 0 {
		h.seen.listed += want.Total
	}
	for _, object := range h.model.all("pod") {
		pod := object.(*corev1.Pod)
		gone := pod.DeletionTimestamp != nil || pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed"
		if want := h.model.isBehind(pod, service) && !gone; view.IsPeer(pod) != want {
			h.t.Fatalf("%s/%s: want peer %s/%s %t", namespace, name, pod.Namespace, pod.Name, want)
		}
	}
	if h.oneOf(200) {
		h.kept = append(h.kept, keptView{view, keys, want})
	}
}

// say returns all that a View says.
func say(view *View, keys []string) *answer {
	a := &answer{Total: view.Total(), Levels: map[string]map[string]int{}}
	for _, key := range keys {
		level := view.Level(key)
		a.Levels[key] = maps.Collect(level.All)
		for _, value := range []string{"v0", "v1", "v2", "v3"} {
			if within := view.Within(key, value); within != a.Levels[key][value] || within != level.Within(value) {
				panic("Within and All disagree")
			}
		}
	}
	return a
}

// finish looks whether views have changed.
func (h *history) finish() {
	h.t.Helper()
	for _, kept := range h.kept {
		if diff := cmp.Diff(kept.said, say(kept.view, kept.keys)); diff != "" {
			h.t.Fatalf("a view has changed (-when it was taken,+now):\n%s", diff)
		}
	}
}
