// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// TestHistories drives the plugin through random histories: pods are placed, one at a
// time or in groups that the snapshot does not show, assumed, bound, given up in the
// middle of other cycles, tried again and deleted; Bindings are lost with and without
// being written; the informer's store, the allocation cache and the scheduler's cache hear of
// things late and in any order; and now and then another process takes over with
// nothing but the API, while Bindings of the former one are still on their way and arrive
// later, also to pods that the new one cannot fence. After every step what is held is computed a second time, by
// other code, from the API's pods and the assumed pods, and no device may be given away
// twice, no device be taken for a pod that holds nothing, and no node be closed.
//
// BERTH_LONG=1 makes the histories 10,000 steps long.
func TestHistories(t *testing.T) {
	steps := 800
	if os.Getenv("BERTH_LONG") == "1" {
		steps = 10_000
	}
	strategies := []config.GPUDeviceStrategy{
		config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit, config.GPUDeviceLeastAllocated, config.GPUDeviceMostAllocated,
	}
	refused, stuck, landed, released := 0, 0, 0, 0
	for seed := range uint64(16) {
		strategy := strategies[seed%uint64(len(strategies))]
		t.Run(fmt.Sprintf("seed=%d/%s", seed, strategy), func(t *testing.T) {
			h := &history{process: newProcess(t, seed, 1), strategy: strategy, api: map[types.UID]*corev1.Pod{}, stuck: map[types.UID]error{}, refuses: seed >= 12}
			for i := range 3 {
				h.nodes = append(h.nodes, gpuNode(fmt.Sprintf("n%d", i), 2+i))
			}
			h.restart()
			for range steps {
				h.step()
				h.check()
			}
			t.Logf("%+v", h.counts)
			refused += h.refused
			stuck, landed, released = stuck+h.kept, landed+h.landed, released+h.released
			if h.refuses {
				return // what is kept back leaves less room for all that
			}
			for what, count := range map[string][2]int{
				"pods placed": {h.placed, 40}, "answers lost": {h.lost, 3}, "restarts": {h.restarts, 2}, "pods given up in mid-cycle": {h.interrupted, 10},
				"pods tried again": {h.retried, 10}, "members of groups": {h.members, 10},
			} {
				if count[0] < count[1] {
					t.Errorf("only %d %s: the history shows little", count[0], what)
				}
			}
		})
	}
	if refused < 10 {
		t.Errorf("only %d Bindings of former processes were refused: the histories show little", refused)
	}
	if stuck < 30 || landed < 3 || released < 3 {
		t.Errorf("%d pods could not be fenced, Bindings of former processes were written to %d, and %d were fenced later: the histories show little", stuck, landed, released)
	}
}

// counts say what a history had in it.
type counts struct {
	placed, members, retried, interrupted, lost, restarts, refused int
	// kept is how many pods could not be fenced, landed to how many of them a late Binding was
	// written, and released how many were fenced later.
	kept, landed, released int
}

// history is one cluster and what happens to it.
type history struct {
	counts

	process
	strategy config.GPUDeviceStrategy
	nodes    []*corev1.Node
	count    int

	// api is what the API server has, and version that of its last write. onTheirWay are
	// Bindings of former processes that it has not got yet.
	api        map[types.UID]*corev1.Pod
	version    int
	onTheirWay []*corev1.Binding
	// stuck are pods whose status cannot be written, and why; refuses is whether there are any.
	stuck   map[types.UID]error
	refuses bool

	// What follows is gone after a restart, as process is. assumed are pods between
	// Reserve and the event of their Binding.
	assumed []*assumedPod
	// dropped are assumed pods that Unreserve was called for and that the cache has
	// not been told to forget yet.
	dropped []*corev1.Pod
	// watch are changes that the informer's store has not got yet. What it has, it tells
	// its handlers in order, each in its own time: toAllocations and toCache.
	watch, toAllocations, toCache []func()
}

// assumedPod is a pod on its way. assumed is what the scheduler's cache has of it.
type assumedPod struct {
	assumed *corev1.Pod
	holding [][2]int64 // by device: milli, MiB
	sent    bool
}

func (h *history) restart() {
	h.restarts++
	// A Binding that is on its way when the scheduler dies is written at once, or later if
	// nothing hinders it, or lost.
	for _, p := range h.assumed {
		held := h.pl.allocations.get(p.assumed.UID)
		if p.sent || held == nil || !h.pending(p.assumed.UID) {
			continue
		}
		switch h.rand.IntN(6) {
		case 0:
			h.write(p)
		case 1:
		default:
			h.onTheirWay = append(h.onTheirWay, held.binding(h.api[p.assumed.UID]))
		}
	}
	h.start(gpuArgs(withStrategy(h.strategy)))
	h.assumed, h.dropped, h.watch, h.toAllocations, h.toCache = nil, nil, nil, nil, nil
	for _, node := range h.nodes {
		h.live.AddNode(h.logger, node)
	}
	for _, uid := range slices.Sorted(maps.Keys(h.api)) {
		h.must(h.store().Add(h.api[uid]))
	}
	h.fence()
	for _, uid := range slices.Sorted(maps.Keys(h.api)) {
		pod := h.api[uid]
		h.events.OnAdd(pod, true)
		if pod.Spec.NodeName != "" {
			h.must(h.live.AddPod(h.logger, pod))
		}
	}
}

// Why a pod cannot be fenced: for a while, and as long as it lives.
var (
	errDenied = apierrors.NewInternalError(errors.New("a webhook does not answer"))
	errFull   = &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}}
)

// fence lets the new process fence the pods, as it does before its first share. With some it
// does not succeed.
func (h *history) fence() {
	var mu sync.Mutex
	// The informer has nothing to catch up with at first, and later hears of the fence like
	// of anything else.
	tell := func(_, fenced *corev1.Pod) { h.must(h.store().Add(fenced)) }
	find := func(name string) *corev1.Pod {
		for _, pod := range h.api {
			if pod.Name == name {
				return pod
			}
		}
		return nil
	}
	h.profile.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		patch := action.(clienttesting.PatchAction)
		pod := find(patch.GetName())
		switch {
		case pod == nil:
			return true, nil, apierrors.NewNotFound(podsResource, "")
		case !strings.Contains(string(patch.GetPatch()), fmt.Sprintf(`"resourceVersion":%q`, pod.ResourceVersion)):
			return true, nil, apierrors.NewConflict(podsResource, pod.Name, errors.New("the object has been modified"))
		case h.stuck[pod.UID] != nil:
			return true, nil, h.stuck[pod.UID]
		}
		fenced := pod.DeepCopy()
		fenced.Status.Conditions = []corev1.PodCondition{{Type: names.GPUFenceCondition, Message: h.pl.allocations.nextToken()}}
		h.put(fenced)
		tell(pod, fenced)
		return true, fenced, nil
	})
	h.profile.Client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		name, one := action.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch(metav1.ObjectNameField)
		list := &corev1.PodList{}
		if pod := find(name); one && pod != nil {
			list.Items = append(list.Items, *pod)
		}
		return one, list, nil
	})
	for _, binding := range h.onTheirWay {
		h.hold(binding.UID)
	}
	if pod := oneOf(h.rand, h.api); pod != nil {
		h.hold(pod.UID)
	}
	h.pl.allocations.epoch = strconv.Itoa(h.version + 1)
	_, err := h.pl.allocations.fencePods(h.t.Context())
	h.must(err)
	tell = func(pod, fenced *corev1.Pod) {
		h.tell(func() { h.must(h.store().Add(fenced)) }, func() { h.events.OnUpdate(pod, fenced) }, func() {})
	}
}

// hold has the API server refuse writes to the status of a pod.
func (h *history) hold(uid types.UID) {
	if h.refuses && h.pending(uid) && h.stuck[uid] == nil {
		h.kept++
		h.stuck[uid] = []error{errDenied, errDenied, errDenied, errFull}[h.rand.IntN(4)]
	}
}

// mend has the API server take writes to a pod that it refused, and the process fence it.
func (h *history) mend() {
	for _, uid := range slices.Sorted(maps.Keys(h.stuck)) {
		if h.stuck[uid] == errDenied && h.pending(uid) { //nolint:errorlint // the very same
			delete(h.stuck, uid)
			h.released++
			break
		}
	}
	_, err := h.pl.allocations.fenceAll(h.t.Context(), h.pl.allocations.kept.pods(h.pl.allocations), laterPass)
	h.must(err)
}

// put writes a version of a pod into the API.
func (h *history) put(pod *corev1.Pod) {
	h.version++
	pod.ResourceVersion = strconv.Itoa(h.version)
	h.api[pod.UID] = pod
}

// arrive lets a Binding of a former process reach the API server, which writes it if the
// pod is as it was when it was sent.
func (h *history) arrive() {
	if len(h.onTheirWay) == 0 {
		return
	}
	i := h.rand.IntN(len(h.onTheirWay))
	binding := h.onTheirWay[i]
	h.onTheirWay = slices.Delete(h.onTheirWay, i, i+1)
	pending, ok := h.api[binding.UID]
	if !ok || pending.Spec.NodeName != "" || pending.ResourceVersion != binding.ResourceVersion || h.stuck[binding.UID] == errFull { //nolint:errorlint // the very same
		h.refused++
		return
	}
	if h.stuck[binding.UID] != nil {
		h.landed++
	}
	onNode := pending.DeepCopy()
	onNode.Spec.NodeName = binding.Target.Name
	for key, value := range binding.Annotations {
		annotated(onNode, key, value)
	}
	h.put(onNode)
	h.tell(
		func() { h.must(h.store().Add(onNode)) },
		func() { h.events.OnUpdate(pending, onNode) },
		func() { h.must(h.live.AddPod(h.logger, onNode)) },
	)
}

func (h *history) step() {
	switch n := h.rand.IntN(27); {
	case n < 8:
		h.place()
	case n < 10:
		h.placeGroup()
	case n < 13:
		h.bind(false)
	case n < 14:
		h.bind(true)
	case n < 16:
		h.giveUp()
		h.forget()
	case n < 18:
		h.deletePod()
	case n < 19 && h.rand.IntN(2) == 0:
		h.restart()
	case n < 22:
		h.deliver()
	case n < 24:
		h.arrive()
	case n < 25 && h.rand.IntN(3) == 0:
		h.mend()
	case n < 25:
		h.arrive()
	default:
		h.deliverAll()
	}
}

// pending reports whether the API has the pod, and without a node.
func (h *history) pending(uid types.UID) bool {
	pod, ok := h.api[uid]
	return ok && pod.Spec.NodeName == ""
}

// next is a pod to be placed: one that waits, or a new one. The scheduler's queue has
// no pod that its informer knows to be gone, bound or assumed.
func (h *history) next() *corev1.Pod {
	var waiting []*corev1.Pod
	for _, uid := range slices.Sorted(maps.Keys(h.api)) {
		assumed := slices.ContainsFunc(h.assumed, func(p *assumedPod) bool { return p.assumed.UID == uid })
		dropped := slices.ContainsFunc(h.dropped, func(pod *corev1.Pod) bool { return pod.UID == uid })
		if h.pending(uid) && !assumed && !dropped {
			waiting = append(waiting, h.api[uid])
		}
	}
	if len(waiting) > 0 && h.rand.IntN(3) == 0 {
		if pod := waiting[h.rand.IntN(len(waiting))]; !h.keptBack(pod) {
			h.retried++
			return pod
		}
	}
	h.count++
	var pod *corev1.Pod
	name := fmt.Sprintf("p%d", h.count)
	switch h.rand.IntN(5) {
	case 0:
		pod = sharePod(name, 1000*(1+h.rand.IntN(2)))
	case 1:
		pod = makePod(name, names.GPUMemoryResource, fmt.Sprintf("%dGi", 1+h.rand.IntN(30)))
	case 2:
		pod = makePod(name, names.GPUMilliResource, strconv.Itoa(1+h.rand.IntN(400)), names.GPUMemoryResource, fmt.Sprintf("%dGi", 1+h.rand.IntN(30)))
	default:
		pod = sharePod(name, 1+h.rand.IntN(999))
	}
	h.put(pod)
	h.must(h.store().Add(pod))
	return pod
}

// keptBack reports whether the process does not let the pod in.
func (h *history) keptBack(pod *corev1.Pod) bool {
	kept := !h.pl.PreEnqueue(h.t.Context(), pod).IsSuccess()
	if _, status, _ := h.profile.RunPreFilterPlugins(h.t.Context(), framework.NewCycleState(), pod); status.IsSuccess() == kept && !errors.Is(status.AsError(), errOldSnapshot) {
		h.t.Fatalf("pod %s is kept back by PreEnqueue: %t, and PreFilter says %v", pod.Name, kept, status)
	}
	return kept
}

// place runs a scheduling cycle, up to Reserve, on a snapshot of its beginning. What
// other cycles and the informer do meanwhile happens between any two of its steps.
func (h *history) place() {
	pod := h.next()
	h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
	h.interrupt()
	state := framework.NewCycleState()
	node := h.choose(pod, state, nil)
	if node == "" {
		return
	}
	h.interrupt()
	h.reserve(pod, state, node)
}

// placeGroup places a few pods as the cycle of a pod group does: each is tried on the
// snapshot, which shows those before it; then all of that is taken back, and each is assumed
// once more on the snapshot of the beginning, which shows none.
func (h *history) placeGroup() {
	type member struct {
		pod   *corev1.Pod
		state *framework.CycleState
		node  string
	}
	h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
	only := h.nodes[h.rand.IntN(len(h.nodes))].Name
	var fit []member
	var revert []func()
	tried := map[types.UID]bool{}
	for range 2 + h.rand.IntN(3) {
		pod, state := h.next(), framework.NewCycleState()
		if tried[pod.UID] {
			continue
		}
		tried[pod.UID] = true
		state.SetPodGroupSchedulingCycle(framework.NewCycleState())
		node := h.choose(pod, state, &only)
		if node == "" {
			continue
		}
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = node
		info, err := framework.NewPodInfo(assumed)
		h.must(err)
		h.must(h.live.snapshot.AssumePod(info))
		takeBack := func() {
			h.profile.RunReservePluginsUnreserve(h.t.Context(), state, assumed, node)
			h.must(h.live.snapshot.ForgetPod(h.logger, assumed))
		}
		if !h.profile.RunReservePluginsReserve(h.t.Context(), state, assumed, node).IsSuccess() {
			takeBack()
			continue
		}
		fit = append(fit, member{pod, state, node})
		revert = append(revert, takeBack)
	}
	for _, takeBack := range slices.Backward(revert) {
		takeBack()
	}
	for _, m := range fit {
		h.interrupt()
		h.members++
		m.state.SetPodGroupSchedulingCycle(nil)
		h.reserve(m.pod, m.state, m.node)
		if h.rand.IntN(3) == 0 {
			h.bind(false) // the binding cycle of a member that was assumed before
			h.deliver()
		}
	}
}

// choose runs PreFilter and Filter and returns a node that fits, or "". only, if not
// nil, is the only node that is tried.
func (h *history) choose(pod *corev1.Pod, state fwk.CycleState, only *string) string {
	if _, status, _ := h.profile.RunPreFilterPlugins(h.t.Context(), state, pod); errors.Is(status.AsError(), errOldSnapshot) {
		return "" // a late Binding was seen in the middle of the first cycle
	} else if !status.IsSuccess() {
		h.t.Fatalf("PreFilter: %v", status)
	}
	var feasible []string
	for _, info := range h.profile.Nodes(h.t) {
		if only != nil && info.Node().Name != *only {
			continue
		}
		h.interrupt()
		status := h.profile.RunFilterPlugins(h.t.Context(), state, pod, info)
		if status.Message() == reasonTexts[device.Unrecorded] {
			h.t.Fatalf("node %s is closed: %v", info.Node().Name, status)
		}
		if status.IsSuccess() {
			feasible = append(feasible, info.Node().Name)
		}
	}
	if len(feasible) == 0 {
		return ""
	}
	return feasible[h.rand.IntN(len(feasible))]
}

// reserve assumes the pod and reserves devices for it. It may be refused: on a snapshot
// that does not show all, Filter lets through what Reserve must not.
func (h *history) reserve(pod *corev1.Pod, state fwk.CycleState, node string) {
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	h.must(h.live.AssumePod(h.logger, assumed))
	if status := h.profile.RunReservePluginsReserve(h.t.Context(), state, assumed, node); !status.IsSuccess() {
		if strings.Contains(status.Message(), reasonTexts[device.Unrecorded]) {
			h.t.Fatalf("node %s is closed: %v", node, status)
		}
		h.profile.RunReservePluginsUnreserve(h.t.Context(), state, assumed, node)
		h.must(h.live.ForgetPod(h.logger, assumed))
		return
	}
	h.placed++
	p := &assumedPod{assumed: assumed}
	object := h.nodes[slices.IndexFunc(h.nodes, func(n *corev1.Node) bool { return n.Name == node })]
	holding, err := h.pl.allocations.get(pod.UID).allocation.On(device.ParseNode(object, h.pl.nodeKeys))
	h.must(err)
	for _, share := range holding {
		p.holding = append(p.holding, [2]int64{share.Milli, share.MemoryMiB})
	}
	h.assumed = append(h.assumed, p)
}

// interrupt lets other cycles end, and the informer go on, in the middle of a cycle. The
// snapshot of the cycle stays as it was.
func (h *history) interrupt() {
	switch h.rand.IntN(8) {
	case 0:
		if h.giveUp() {
			h.interrupted++
		}
	case 1:
		h.forget()
	case 2:
		h.deliver()
	}
}

// take removes an assumed pod that satisfies the condition and returns it, or nil.
func (h *history) take(condition func(*assumedPod) bool) *assumedPod {
	for i, p := range h.assumed {
		if condition(p) {
			h.assumed = slices.Delete(h.assumed, i, i+1)
			return p
		}
	}
	return nil
}

// write is what the API server does with a Binding.
func (h *history) write(p *assumedPod) *corev1.Pod {
	annotations := h.pl.allocations.get(p.assumed.UID).annotations
	onNode := h.api[p.assumed.UID].DeepCopy()
	onNode.Spec.NodeName = p.assumed.Spec.NodeName
	for key, value := range annotations {
		annotated(onNode, key, value)
	}
	h.put(onNode)
	return onNode
}

// bind writes the Binding of an assumed pod. If the answer is lost, the allocation cache is
// told that it is in doubt before it hears of the pod.
func (h *history) bind(lost bool) {
	p := h.take(func(p *assumedPod) bool { return !p.sent })
	if p == nil {
		return
	}
	if !h.pending(p.assumed.UID) || h.pl.allocations.get(p.assumed.UID) == nil {
		h.unreserve(p)
		return
	}
	pending := h.api[p.assumed.UID]
	if lost {
		h.lost++
		h.pl.allocations.setBindingUnknown(p.assumed.UID, true)
	}
	onNode := h.write(p)
	p.sent = true
	h.assumed = append(h.assumed, p)
	h.tell(
		func() { h.must(h.store().Add(onNode)) },
		func() { h.events.OnUpdate(pending, onNode) },
		func() {
			h.must(h.live.AddPod(h.logger, onNode))
			h.take(func(other *assumedPod) bool { return other == p })
		},
	)
}

// giveUp ends a cycle after Reserve without a Binding, or with one that was clearly
// refused. The cache forgets the pod later: see forget.
func (h *history) giveUp() bool {
	p := h.take(func(p *assumedPod) bool { return !p.sent })
	if p == nil {
		return false
	}
	h.unreserve(p)
	return true
}

func (h *history) unreserve(p *assumedPod) {
	h.profile.RunReservePluginsUnreserve(h.t.Context(), framework.NewCycleState(), p.assumed, p.assumed.Spec.NodeName)
	h.dropped = append(h.dropped, p.assumed)
}

// forgetSeen lets the cache forget the pods that were given up, which it does right after
// Unreserve, in the same goroutine.
func (h *history) forget() {
	for _, assumed := range h.dropped {
		if known, err := h.live.GetPod(assumed); err == nil && known.UID == assumed.UID {
			if is, err := h.live.IsAssumedPod(assumed); err == nil && is {
				h.must(h.live.ForgetPod(h.logger, assumed))
			}
		}
	}
	h.dropped = nil
}

// deletePod deletes a pod, one that runs or one that waits, also in mid-cycle.
func (h *history) deletePod() {
	gone := oneOf(h.rand, h.api)
	if gone == nil {
		return
	}
	delete(h.api, gone.UID)
	h.tell(
		func() {
			h.must(h.store().Delete(gone))
		},
		func() { h.events.OnDelete(gone) },
		func() {
			if gone.Spec.NodeName != "" {
				h.must(h.live.RemovePod(h.logger, gone))
				return
			}
			// The scheduler forgets one that it has assumed, and gives it up when its
			// binding cycle ends.
			if is, err := h.live.IsAssumedPod(gone); err == nil && is {
				assumed, err := h.live.GetPod(gone)
				h.must(err)
				h.must(h.live.ForgetPod(h.logger, assumed))
			}
		},
	)
}

// tell lets the informer know of a change, some time.
func (h *history) tell(stored, allocations, cached func()) {
	h.watch = append(h.watch, func() {
		stored()
		h.toAllocations = append(h.toAllocations, allocations)
		h.toCache = append(h.toCache, cached)
	})
}

// deliver lets one of them go on by one event.
func (h *history) deliver() {
	queue := []*[]func(){&h.watch, &h.toAllocations, &h.toCache}[h.rand.IntN(3)]
	if len(*queue) > 0 {
		event := (*queue)[0]
		*queue = (*queue)[1:]
		event()
	}
}

func (h *history) deliverAll() {
	for len(h.watch)+len(h.toAllocations)+len(h.toCache) > 0 {
		h.deliver()
	}
	h.forget()
}

// check computes what is taken from the API's pods and the assumed pods, and compares.
func (h *history) check() {
	h.t.Helper()
	h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
	for range 3 {
		checkRanking(h.t, h.pl, sharePod("ranked", 1+300*h.rand.IntN(4)), h.profile.Nodes(h.t))
	}
	settled := len(h.watch)+len(h.toAllocations)+len(h.toCache)+len(h.dropped) == 0
	for i, node := range h.nodes {
		// Two schedulers cannot be told from one that gives a device away twice: what
		// the API has, and what it will have if all that is assumed is written.
		used, reserved := make([][2]int64, 2+i), make([][2]int64, 2+i)
		add := func(d int, milli, memory int64) {
			used[d][0] += milli
			used[d][1] += memory
		}
		for _, pod := range h.api {
			if pod.Spec.NodeName == node.Name {
				h.addRecord(pod, add)
			}
		}
		for _, p := range h.assumed {
			if p.assumed.Spec.NodeName == node.Name && h.pending(p.assumed.UID) {
				for d := range used {
					reserved[d][0] += p.holding[d][0]
					reserved[d][1] += p.holding[d][1]
				}
			}
		}
		v := h.pl.viewToReserve(framework.NewCycleState(), nodeInfo(h.t, h.profile, node.Name), "")
		if v.unrecorded || v.nominatedPodWaits {
			h.t.Fatalf("node %s takes nothing: unrecorded %t, nominated pod waits %t", node.Name, v.unrecorded, v.nominatedPodWaits)
		}
		got := make([][2]int64, 2+i)
		for d := range got {
			free := v.usage.Free(d)
			got[d] = [2]int64{1000 - free.Milli, a100Memory - free.MemoryMiB}
			used[d][0] += reserved[d][0]
			used[d][1] += reserved[d][1]
			if used[d][0] > 1000 || used[d][1] > a100Memory {
				h.t.Fatalf("device %d of node %s is given away twice: %v", d, node.Name, used[d])
			}
			// A deletion that it has not heard of holds its devices still; what the API
			// has is there in any case.
			if got[d][0] < used[d][0] || got[d][1] < used[d][1] {
				h.t.Fatalf("device %d of node %s: %v are used, and the plugin knows of %v", d, node.Name, used[d], got[d])
			}
		}
		if settled {
			// What pods that are kept back may hold counts everywhere.
			if diff := cmp.Diff(used, got); diff != "" && len(h.pl.allocations.kept.load()) == 0 {
				h.t.Fatalf("node %s (-API,+plugin):\n%s", node.Name, diff)
			}
			if diff := cmp.Diff(got, h.shown(node.Name, 2+i)); diff != "" {
				h.t.Fatalf("node %s: Filter and Reserve count otherwise (-Reserve,+Filter):\n%s", node.Name, diff)
			}
		}
	}
}

// shown is what Filter counts.
func (h *history) shown(node string, devices int) [][2]int64 {
	v := h.pl.view(nodeInfo(h.t, h.profile, node), false)
	got := make([][2]int64, devices)
	for d := range got {
		free := v.usage.Free(d)
		got[d] = [2]int64{1000 - free.Milli, a100Memory - free.MemoryMiB}
	}
	return got
}

// addRecord reads a pod's record with code of its own.
func (h *history) addRecord(pod *corev1.Pod, add func(d int, milli, memory int64)) {
	h.t.Helper()
	_, rest, ok := strings.Cut(pod.Annotations["berth.dev/gpu-assigned"], "=")
	fields := strings.Split(rest, ":")
	if !ok || len(fields) != 3 {
		h.t.Fatalf("pod %s on a node has no record: %v", pod.Name, pod.Annotations)
	}
	for index := range strings.SplitSeq(fields[0], ",") {
		var d int
		var milli, memory int64
		if _, err := fmt.Sscanf(index+" "+fields[1]+" "+fields[2], "%d %dm %dMi", &d, &milli, &memory); err != nil {
			h.t.Fatalf("pod %s: %v", pod.Name, err)
		}
		add(d, milli, memory)
	}
}
