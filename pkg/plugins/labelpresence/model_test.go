// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// A history is a random run of nodes, namespaces and pods that come, change and
// go, as a scheduler sees it: each kind of object has a watch of its own that may
// lag. The plugin is held to the invariant of the package comment by an oracle
// that knows nothing but the objects.
type history struct {
	t       *testing.T
	rng     *rand.Rand
	profile *schedtest.Profile
	pl      *LabelPresence
	steps   []string // what happened, for the message of a failure

	version    int
	nodes      map[string]*corev1.Node // in the API
	namespaces map[string]*corev1.Namespace

	// What has happened in the API and is not delivered yet, oldest first.
	nodeEvents      []modelEvent[*corev1.Node]
	namespaceEvents []modelEvent[*corev1.Namespace]
	// namespaceStored is whether the first of them is in the informer's store already.
	namespaceStored bool

	seenNodes map[string]*corev1.Node // in the scheduler's cache
	// told is the newest that the watch has told of a namespace, nil if that is
	// that it is gone.
	told map[string]*corev1.Namespace

	pods     map[types.UID]*corev1.Pod
	asleep   map[types.UID]bool // rejected, and not activated since
	placed   int
	rejected int
}

// modelEvent is a change from old to updated; nil for none.
type modelEvent[T any] struct {
	old, updated T
}

// mayPlace is the oracle: whether the invariant lets a pod of the namespace onto
// the node.
func (h *history) mayPlace(namespace *corev1.Namespace, node *corev1.Node) bool {
	if namespace.Name == "exempt" {
		return true
	}
	tenants := map[string]bool{} // whoever the node is said to be of
	named := false
	if value, ok := node.Labels[nodeTenantKey]; ok {
		tenants["tenant "+value] = true
		named = true
	}
	for _, taint := range node.Spec.Taints {
		switch {
		case taint.Key != nodeTaintKey:
		case taint.Value != "":
			tenants["tenant "+taint.Value] = true
		case !named:
			tenants["somebody"] = true
		}
	}
	owner, owned := namespace.Labels[namespaceTenantKey]
	if len(tenants) == 0 {
		return !owned || !h.pl.policy.tenancy.confined
	}
	return owned && named && len(tenants) == 1 && tenants["tenant "+owner]
}

// mustNotRun is whether a pod of the namespace is certainly in the wrong on the
// node: mayPlace denies it, and no later label or taint shows that it was right.
func (h *history) mustNotRun(namespace *corev1.Namespace, node *corev1.Node) bool {
	_, owned := namespace.Labels[namespaceTenantKey]
	label, named := node.Labels[nodeTenantKey]
	for _, taint := range node.Spec.Taints {
		if taint.Key == nodeTaintKey && owned && (!named || taint.Value != "" && taint.Value != label) {
			return false
		}
	}
	return !h.mayPlace(namespace, node)
}

func (h *history) log(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

func (h *history) fatalf(format string, args ...any) {
	h.t.Helper()
	for i, step := range h.steps {
		if i >= len(h.steps)-40 {
			h.t.Logf("%d: %s", i, step)
		}
	}
	h.t.Fatalf(format, args...)
}

func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

func (h *history) step() {
	switch h.rng.IntN(10) {
	case 0, 1:
		h.changeNode()
	case 2:
		h.changeNamespace()
	case 3:
		h.createPod()
	case 4:
		h.removePod()
	case 5, 6:
		h.deliver()
	default:
		h.schedule()
	}
}

func (h *history) changeNode() {
	name := pick(h.rng, "n1", "n2", "n3")
	old := h.nodes[name]
	h.version++
	var updated *corev1.Node
	switch {
	case old == nil:
		updated = makeNode(name, nil)
		if h.rng.IntN(2) == 0 {
			// A kubelet registers its node with taints, and cannot set the label.
			updated.Spec.Taints = []corev1.Taint{{Key: nodeTaintKey, Value: pick(h.rng, "", "blue"), Effect: corev1.TaintEffectNoSchedule}}
		}
	case h.rng.IntN(8) == 0:
	default:
		updated = old.DeepCopy()
		switch h.rng.IntN(4) {
		case 0:
			updated.Labels = map[string]string{nodeTenantKey: pick(h.rng, "blue", "red", "")}
		case 1:
			updated.Labels = nil
		case 2:
			updated.Spec.Taints = []corev1.Taint{{Key: "example.com/other"}, {
				Key: nodeTaintKey, Value: pick(h.rng, "", "blue", "red"),
				Effect: pick(h.rng, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
			}}
		case 3:
			updated.Spec.Taints = nil
		}
	}
	if updated == nil {
		delete(h.nodes, name)
		h.log("API: node %s is deleted", name)
	} else {
		h.nodes[name] = updated
		h.log("API: node %s has labels %v, taints %v", name, updated.Labels, updated.Spec.Taints)
	}
	h.nodeEvents = append(h.nodeEvents, modelEvent[*corev1.Node]{old: old, updated: updated})
}

func (h *history) changeNamespace() {
	name := pick(h.rng, "x", "y", "exempt")
	old := h.namespaces[name]
	h.version++
	version := strconv.Itoa(h.version)
	var updated *corev1.Namespace
	switch {
	case old == nil:
		updated = makeNamespace(name, version, nil)
		updated.UID = types.UID("uid-" + version)
	case h.rng.IntN(8) == 0 && !h.hasPods(name):
		old = old.DeepCopy()
		old.ResourceVersion = version // what a watch says of a deleted object
	default:
		updated = old.DeepCopy()
		updated.ResourceVersion = version
	}
	if updated != nil {
		updated.Labels = pick(h.rng, nil, map[string]string{namespaceTenantKey: "blue"}, map[string]string{namespaceTenantKey: "red"}, map[string]string{namespaceTenantKey: ""})
		h.namespaces[name] = updated
		h.log("API: namespace %s has labels %v", name, updated.Labels)
	} else {
		delete(h.namespaces, name)
		h.log("API: namespace %s is deleted", name)
	}
	h.namespaceEvents = append(h.namespaceEvents, modelEvent[*corev1.Namespace]{old: old, updated: updated})
}

func (h *history) hasPods(namespace string) bool {
	for _, pod := range h.pods {
		if pod.Namespace == namespace {
			return true
		}
	}
	return false
}

func (h *history) podIndexer() cache.Indexer {
	return h.profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
}

// createPod creates a waiting pod, or one that somebody else has put on a node.
func (h *history) createPod() {
	name := pick(h.rng, "x", "y", "exempt")
	if h.namespaces[name] == nil || len(h.pods) > 20 {
		return
	}
	h.version++
	pod := st.MakePod().Namespace(name).Name("p" + strconv.Itoa(h.version)).UID(strconv.Itoa(h.version)).SchedulerName(h.profile.ProfileName()).Obj()
	if h.rng.IntN(3) == 0 {
		pod.Spec.NodeName = pick(h.rng, "n1", "n2", "n3")
	}
	h.log("API: pod %s of %s is created, node %q", pod.Name, name, pod.Spec.NodeName)
	h.storePod(pod)
}

func (h *history) storePod(pod *corev1.Pod) {
	h.pods[pod.UID] = pod
	if err := h.podIndexer().Update(pod); err != nil {
		h.t.Fatal(err)
	}
	h.pl.namespaces.monitor.podHandler().OnAdd(pod, false)
}

// sorted returns the pods in an order that does not depend on the map.
func (h *history) sorted(want func(*corev1.Pod) bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		if want(h.pods[uid]) {
			pods = append(pods, h.pods[uid])
		}
	}
	return pods
}

func (h *history) removePod() {
	pods := h.sorted(func(*corev1.Pod) bool { return true })
	if len(pods) == 0 {
		return
	}
	pod := pick(h.rng, pods...)
	h.log("API: pod %s is deleted", pod.Name)
	delete(h.pods, pod.UID)
	delete(h.asleep, pod.UID)
	if err := h.podIndexer().Delete(pod); err != nil {
		h.t.Fatal(err)
	}
	h.pl.namespaces.monitor.podHandler().OnDelete(pod)
}

// deliver delivers the oldest event of one watch, and reports whether there was
// one.
func (h *history) deliver() bool {
	var waiting []func()
	if len(h.nodeEvents) > 0 {
		waiting = append(waiting, h.deliverNode)
	}
	if len(h.namespaceEvents) > 0 {
		waiting = append(waiting, h.deliverNamespace)
	}
	if len(waiting) == 0 {
		return false
	}
	pick(h.rng, waiting...)()
	return true
}

// ask asks a queueing hint on behalf of every sleeping pod, and wakes those for
// which it says so.
func (h *history) ask(hint func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error), old, updated any, check func(*corev1.Pod, bool)) {
	for _, pod := range h.sorted(func(pod *corev1.Pod) bool { return h.asleep[pod.UID] }) {
		answer, err := hint(klog.Background(), pod, old, updated)
		if err != nil {
			h.fatalf("the hint for pod %s: %v", pod.Name, err)
		}
		check(pod, answer == fwk.Queue)
		if answer == fwk.Queue {
			h.log("scheduler: pod %s is activated", pod.Name)
			delete(h.asleep, pod.UID)
		}
	}
}

func (h *history) deliverNode() {
	event := h.nodeEvents[0]
	h.nodeEvents = h.nodeEvents[1:]
	indexer := h.profile.SharedInformerFactory().Core().V1().Nodes().Informer().GetIndexer()
	handler := h.pl.namespaces.monitor.nodeHandler()
	if event.updated == nil {
		delete(h.seenNodes, event.old.Name)
		if err := indexer.Delete(event.old); err != nil {
			h.t.Fatal(err)
		}
		handler.OnDelete(event.old)
		return
	}
	h.log("watch: node %s", event.updated.Name)
	h.seenNodes[event.updated.Name] = event.updated
	if err := indexer.Update(event.updated); err != nil {
		h.t.Fatal(err)
	}
	var old any
	if event.old == nil {
		handler.OnAdd(event.updated, false)
	} else {
		old = event.old
		handler.OnUpdate(event.old, event.updated)
	}
	h.ask(h.pl.isSchedulableAfterNodeChange, old, event.updated, func(pod *corev1.Pod, activated bool) {
		namespace := h.told[pod.Namespace]
		if namespace == nil && pod.Namespace == "exempt" {
			namespace = makeNamespace("exempt", "", nil) // nothing of it is read but its name
		}
		want := namespace != nil && h.mayPlace(namespace, event.updated) && (event.old == nil || !h.mayPlace(namespace, event.old))
		if activated != want {
			h.fatalf("node %s changed: pod %s activated: want %t, got %t", event.updated.Name, pod.Name, want, activated)
		}
	})
}

// storeNamespace changes the informer's store, which the plugin reads, before any handler is called.
func (h *history) storeNamespace(event modelEvent[*corev1.Namespace]) {
	h.namespaceStored = true
	indexer := h.profile.SharedInformerFactory().Core().V1().Namespaces().Informer().GetIndexer()
	err := error(nil)
	if event.updated == nil {
		h.log("store: namespace %s is deleted", event.old.Name)
		delete(h.told, event.old.Name)
		err = indexer.Delete(event.old)
	} else {
		h.log("store: namespace %s", event.updated.Name)
		h.told[event.updated.Name] = event.updated
		err = indexer.Update(event.updated)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) deliverNamespace() {
	if !h.namespaceStored {
		h.storeNamespace(h.namespaceEvents[0])
		return
	}
	event := h.namespaceEvents[0]
	h.namespaceEvents, h.namespaceStored = h.namespaceEvents[1:], false
	if event.updated == nil {
		h.log("handler: namespace %s is deleted", event.old.Name)
		h.pl.namespaces.monitor.namespaceChanged(event.old.Name)
		return
	}
	h.log("handler: namespace %s", event.updated.Name)
	h.pl.namespaceDelivered(klog.Background(), event.old, event.updated, false)
	for {
		select {
		case name := <-h.profile.Activated:
			h.log("scheduler: pod %s is activated by the plugin", name)
			for uid, pod := range h.pods {
				if klog.KObj(pod).String() == name {
					delete(h.asleep, uid)
				}
			}
			continue
		default:
		}
		return
	}
}

// schedule runs one scheduling cycle of a pod that is not asleep.
func (h *history) schedule() {
	active := h.sorted(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && !h.asleep[pod.UID] })
	if len(active) == 0 {
		return
	}
	pod := pick(h.rng, active...)
	namespace := h.told[pod.Namespace]
	state := newCycleState()
	_, status := h.pl.PreFilter(h.t.Context(), state, pod, nil)
	if known := namespace != nil || pod.Namespace == "exempt"; !known != (status.Code() == fwk.UnschedulableAndUnresolvable) {
		h.fatalf("PreFilter of pod %s answers %v, namespace known: %t", pod.Name, status, known)
	}
	var fits []string
	for _, name := range slices.Sorted(maps.Keys(h.seenNodes)) {
		var got bool
		switch {
		case status.IsSkip():
			got = true
		case status.IsSuccess():
			nodeInfo := framework.NewNodeInfo()
			nodeInfo.SetNode(h.seenNodes[name])
			got = h.pl.Filter(h.t.Context(), state, pod, nodeInfo).IsSuccess()
		}
		want := pod.Namespace == "exempt" || namespace != nil && h.mayPlace(namespace, h.seenNodes[name])
		if got != want {
			h.fatalf("pod %s of namespace %v on node %s (labels %v, taints %v): want %t, got %t",
				pod.Name, namespace, name, h.seenNodes[name].Labels, h.seenNodes[name].Spec.Taints, want, got)
		}
		if got {
			fits = append(fits, name)
		}
	}
	if len(fits) == 0 {
		h.log("scheduler: pod %s is rejected", pod.Name)
		h.asleep[pod.UID] = true
		h.rejected++
		return
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = pick(h.rng, fits...)
	h.log("scheduler: pod %s gets %s", pod.Name, bound.Spec.NodeName)
	h.placed++
	h.storePod(bound)
}

// settle delivers everything and lets every pod that is not asleep have its
// cycle. Then nobody may sleep whom a node suits, and the gauge is exact.
func (h *history) settle() {
	for h.deliver() {
	}
	for range len(h.pods) {
		h.schedule()
	}
	violating := 0
	for _, pod := range h.sorted(func(*corev1.Pod) bool { return true }) {
		namespace := h.namespaces[pod.Namespace]
		if pod.Spec.NodeName != "" {
			if node := h.nodes[pod.Spec.NodeName]; node != nil && h.mustNotRun(namespace, node) {
				violating++
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
			if h.asleep[pod.UID] && h.mayPlace(namespace, h.nodes[name]) {
				h.fatalf("pod %s sleeps, and node %s suits it", pod.Name, name)
			}
		}
	}
	got, err := testutil.GetGaugeMetricValue(tenancyViolations.WithLabelValues(h.profile.ProfileName()))
	if err != nil {
		h.t.Fatal(err)
	}
	if int(got) != violating {
		h.fatalf("want %d violations, got %g", violating, got)
	}
	// Nobody reads the events here, and the recorder blocks when it is full.
	for {
		select {
		case <-h.profile.Events:
			continue
		default:
		}
		return
	}
}

// TestTenancyHistories holds the plugin to its invariant over random histories.
func TestTenancyHistories(t *testing.T) {
	seeds, steps := 40, 500
	if os.Getenv("BERTH_LONG") != "" {
		seeds, steps = 400, 5000
	}
	placed, rejected := 0, 0
	for _, tenants := range []config.TenantPolicy{config.TenantsConfined, config.TenantsFree} {
		t.Run(string(tenants), func(t *testing.T) {
			for seed := range seeds {
				profile := startProfile(t, &config.LabelPresenceArgs{Tenancy: makeTenancy(tenants, "exempt")},
					schedtest.Options{Name: fmt.Sprintf("%s-%d", tenants, seed)})
				h := &history{
					t: t, rng: rand.New(rand.NewPCG(uint64(seed), 1)), profile: profile, pl: profile.Plugin.(*LabelPresence),
					nodes: map[string]*corev1.Node{}, namespaces: map[string]*corev1.Namespace{}, seenNodes: map[string]*corev1.Node{},
					told: map[string]*corev1.Namespace{},
					pods: map[types.UID]*corev1.Pod{}, asleep: map[types.UID]bool{},
				}
				for i := range steps {
					h.step()
					if i%50 == 49 {
						h.settle()
					}
				}
				placed += h.placed
				rejected += h.rejected
			}
		})
	}
	// A history in which nothing happens shows nothing.
	if placed < 10*seeds || rejected < 10*seeds {
		t.Errorf("the histories placed %d pods and rejected %d", placed, rejected)
	}
	t.Logf("%d pods placed, %d rejected", placed, rejected)
}
