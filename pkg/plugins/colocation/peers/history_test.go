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

// TestHistories tells the index of long random histories: objects of every kind
// come, change, go and come back under the same name; promises are made, kept,
// and taken back; every change is told once or more often, at once, late, or never,
// in any order. After each piece of news every answer of the index is compared with
// the model's, and views from earlier with what they said then.
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
	if !t.Failed() && (seen.peers < 50_000 || seen.listed < 10_000 || seen.promised < 200 || seen.kept < 50 || seen.stale < 1000 || seen.reborn < 200 || seen.forgotten < 500) {
		t.Errorf("the histories show little: %+v", seen)
	}
}

// coverage counts what happened.
type coverage struct {
	peers    int // peers in all answers
	listed   int // of those, behind Services without a selector
	promised int // calls of Reserve
	kept     int // promises that were kept
	stale    int // news that were not the latest of their name
	reborn   int // objects that came again under the name of another
	// forgotten counts the hints that called a pod deleted that need not be.
	forgotten int
}

func (c *coverage) add(other coverage) {
	c.peers += other.peers
	c.listed += other.listed
	c.promised += other.promised
	c.kept += other.kept
	c.stale += other.stale
	c.reborn += other.reborn
	c.forgotten += other.forgotten
}

// change is a change of one object in the API; nil is absent.
type change struct {
	kind         string
	old, updated metav1.Object
}

type history struct {
	t     *testing.T
	rand  *rand.Rand
	index *Index
	model *model
	seen  coverage

	// api is what the API server has, by kind, namespace and name.
	api     map[string]metav1.Object
	version int
	uids    int
	// log has all changes; those from pending on were not told in order yet.
	log     []change
	pending int
	kept    []keptView
	// assumed are the copies that the scheduler reserved for.
	assumed []*corev1.Pod
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
		return keys
	}()
)

func newHistory(t *testing.T, seed uint64) *history {
	return &history{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), index: New(), model: newModel(), api: map[string]metav1.Object{},
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
		h.tellNext()
	case n < 19:
		h.tellAny()
		h.tellOfTheLiving()
	default:
		h.tellBroken()
	}
}

// mutate lets an object come, change, or go.
func (h *history) mutate(kind, namespace, name string) {
	key := modelKey(kind, namespace, name)
	old := h.api[key]
	if old != nil && h.oneOf(6) {
		h.write(kind, old, nil)
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
		h.write(kind, old, h.newPod(meta, before))
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
		h.write(kind, old, &corev1.Node{ObjectMeta: meta})
	case "service":
		h.write(kind, old, h.newService(meta))
	case "slice":
		h.write(kind, old, h.newSlice(meta))
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
		if h.oneOf(4) {
			e.Conditions.Terminating = ptr.To(h.oneOf(2))
		}
		if h.oneOf(2) {
			ref := &corev1.ObjectReference{Kind: "Pod", Name: h.name("p", podNames)}
			if h.oneOf(2) {
				ref.Namespace = h.pick(namespaces)
			}
			if pod := h.api[modelKey("pod", h.pick(namespaces), ref.Name)]; pod != nil && h.oneOf(2) {
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

// write is what the API server does.
func (h *history) write(kind string, old, updated metav1.Object) {
	h.version++
	object := updated
	if updated != nil {
		updated.SetResourceVersion(strconv.Itoa(h.version))
		h.api[modelKey(kind, updated.GetNamespace(), updated.GetName())] = updated
	} else {
		// The event of a deletion has a version of its own, if it was not missed.
		object = old
		if !h.oneOf(4) {
			old = h.withVersion(old)
		}
		delete(h.api, modelKey(kind, object.GetNamespace(), object.GetName()))
	}
	if old == nil && len(h.model.told[modelKey(kind, object.GetNamespace(), object.GetName())]) > 0 {
		h.seen.reborn++
	}
	h.log = append(h.log, change{kind, old, updated})
}

func (h *history) withVersion(object metav1.Object) metav1.Object {
	switch o := object.(type) {
	case *corev1.Pod:
		object = o.DeepCopy()
	case *corev1.Node:
		object = o.DeepCopy()
	case *corev1.Service:
		object = o.DeepCopy()
	case *discoveryv1.EndpointSlice:
		object = o.DeepCopy()
	}
	object.SetResourceVersion(strconv.Itoa(h.version))
	return object
}

// tellNext tells of the next change, as an informer does.
func (h *history) tellNext() {
	if h.pending < len(h.log) {
		h.tell(h.log[h.pending])
		h.pending++
	}
}

// tellAny tells of any change, as a queueing hint may: ahead or behind.
func (h *history) tellAny() {
	if len(h.log) == 0 {
		return
	}
	at := h.rand.IntN(len(h.log))
	if h.oneOf(2) {
		at = max(0, len(h.log)-1-h.rand.IntN(10))
	}
	if h.oneOf(2) {
		h.hint(h.log[at])
		return
	}
	h.tell(h.log[at])
}

// tellOfTheLiving tells a hint that a pod was deleted that may well live, as the
// scheduler does of one whose binding failed, and of one whose nomination changed.
func (h *history) tellOfTheLiving() {
	if len(h.assumed) > 0 {
		h.hint(change{"pod", h.assumed[h.rand.IntN(len(h.assumed))], nil})
		h.seen.forgotten++
	}
	object := h.api[modelKey("pod", h.pick(namespaces), h.name("p", podNames))]
	if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
		h.hint(change{"pod", pod, nil})
		h.seen.forgotten++
	}
}

// hint tells of a change as the scheduler tells a queueing hint. A deletion is to
// be believed only of a pod that is known to be bound.
func (h *history) hint(c change) {
	if c.kind != "pod" {
		h.tell(c)
		return
	}
	h.countKept(c)
	old, _ := c.old.(*corev1.Pod)
	updated, _ := c.updated.(*corev1.Pod)
	if old != nil && (updated == nil || old.UID != updated.UID) {
		known, _ := h.model.believe(modelKey("pod", old.Namespace, old.Name)).(*corev1.Pod)
		if known != nil && known.UID == old.UID && known.Spec.NodeName != "" && number(old) >= number(known) {
			h.model.tell("pod", old, true)
		}
	}
	if updated != nil {
		h.model.tell("pod", updated, false)
	}
	h.index.ApplyPodEvent(old, updated)
}

// tellBroken tells of two changes of a name as of one, as an informer does whose
// watch was broken.
func (h *history) tellBroken() {
	if len(h.log) == 0 {
		return
	}
	from := h.log[h.rand.IntN(len(h.log))]
	if from.updated == nil {
		return
	}
	to := h.api[modelKey(from.kind, from.updated.GetNamespace(), from.updated.GetName())]
	if to == nil {
		h.tell(change{from.kind, from.updated, nil}) // and the last state is not known
		return
	}
	h.tell(change{from.kind, from.updated, to})
}

func (h *history) settle() {
	for h.pending < len(h.log) {
		h.tellNext()
	}
}

func (h *history) tell(c change) {
	h.countKept(c)
	if c.old != nil && (c.updated == nil || c.old.GetUID() != c.updated.GetUID()) {
		h.model.tell(c.kind, c.old, true)
	}
	if c.updated != nil {
		h.model.tell(c.kind, c.updated, false)
		believed := h.model.believe(modelKey(c.kind, c.updated.GetNamespace(), c.updated.GetName()))
		if believed != c.updated {
			h.seen.stale++
		}
	}
	switch c.kind {
	case "pod":
		old, _ := c.old.(*corev1.Pod)
		updated, _ := c.updated.(*corev1.Pod)
		h.index.ApplyPod(old, updated)
	case "node":
		old, _ := c.old.(*corev1.Node)
		updated, _ := c.updated.(*corev1.Node)
		h.index.ApplyNode(old, updated)
	case "service":
		old, _ := c.old.(*corev1.Service)
		updated, _ := c.updated.(*corev1.Service)
		h.index.ApplyService(old, updated)
	case "slice":
		old, _ := c.old.(*discoveryv1.EndpointSlice)
		updated, _ := c.updated.(*discoveryv1.EndpointSlice)
		h.index.ApplyEndpointSlice(old, updated)
	}
}

func (h *history) countKept(c change) {
	if pod, ok := c.updated.(*corev1.Pod); ok && pod.Spec.NodeName != "" && h.model.promised[pod.UID] != "" {
		h.seen.kept++
	}
}

// schedule promises a node to a pod, and may bind it.
func (h *history) schedule() {
	key := modelKey("pod", h.pick(namespaces), h.name("p", podNames))
	pod, _ := h.api[key].(*corev1.Pod)
	if pod == nil || pod.Spec.NodeName != "" {
		return
	}
	node := h.name("n", nodeNames)
	h.seen.promised++
	// The scheduler may know the pod before the index does.
	h.model.tell("pod", pod, false)
	if p := h.model.podByUID(pod.UID); p != nil && p.Spec.NodeName == "" {
		h.model.promised[pod.UID] = node
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	h.index.Reserve(assumed, node)
	h.assumed = append(h.assumed, assumed)
	if h.oneOf(2) {
		onNode := pod.DeepCopy()
		onNode.Spec.NodeName = node
		h.write("pod", pod, onNode)
	}
}

// unreserve takes a promise back, or none.
func (h *history) unreserve() {
	uids := slices.Sorted(maps.Keys(h.model.promised))
	if len(uids) == 0 || h.oneOf(4) {
		uid := types.UID(fmt.Sprintf("uid-%d", h.rand.IntN(h.uids+1)))
		delete(h.model.promised, uid)
		h.index.Unreserve(uid)
		return
	}
	uid := uids[h.rand.IntN(len(uids))]
	delete(h.model.promised, uid)
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
	var keys []string
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
	service := h.model.believe(modelKey("service", namespace, name)).(*corev1.Service)
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
	a := &answer{Total: view.Total(), Nodes: maps.Collect(view.Nodes), Levels: map[string]map[string]int{}}
	for node, peers := range a.Nodes {
		if view.OnNode(node) != peers {
			panic("OnNode and Nodes disagree")
		}
	}
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
