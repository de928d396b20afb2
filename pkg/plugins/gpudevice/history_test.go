// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// TestHistories drives the plugin through random histories: pods are placed,
// promised, bound, given up and deleted, Bindings are lost with and without being
// written, events arrive late and at the ledger and the scheduler's cache in either
// order, and now and then the scheduler starts anew with nothing but the API.
// After every step what is free is computed a second time, by other code, from
// the API's pods and the promises, and no device may be given away twice.
func TestHistories(t *testing.T) {
	strategies := []config.GPUDeviceStrategy{
		config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit, config.GPUDeviceLeastAllocated, config.GPUDeviceRandom,
	}
	for seed := range uint64(12) {
		strategy := strategies[seed%uint64(len(strategies))]
		t.Run(fmt.Sprintf("seed=%d/%s", seed, strategy), func(t *testing.T) {
			h := &history{t: t, rand: rand.New(rand.NewPCG(seed, 1)), strategy: strategy, api: map[types.UID]*corev1.Pod{}}
			for i := range 3 {
				h.nodes = append(h.nodes, gpuNode(fmt.Sprintf("n%d", i), 2+i))
			}
			h.restart()
			for range 400 {
				h.step()
				h.check()
			}
			if h.placed < 50 || h.lost < 5 || h.restarts < 2 {
				t.Errorf("only %d pods were placed, %d answers lost, %d restarts made: the history shows little", h.placed, h.lost, h.restarts)
			}
		})
	}
}

// history is one cluster and what happens to it.
type history struct {
	t        *testing.T
	rand     *rand.Rand
	strategy config.GPUDeviceStrategy
	nodes    []*corev1.Node
	count    int

	placed, lost, restarts int

	// api is what the API server has.
	api map[types.UID]*corev1.Pod

	// What follows is the scheduler's, and gone after a restart.
	profile *schedtest.Profile
	pl      *GPUDevice
	live    *liveCache
	logger  klog.Logger
	events  cache.ResourceEventHandler
	// promised are pods between Reserve and the event of their Binding.
	promised []*promise
	// late are events that were not delivered yet.
	late []func()
}

// promise is a pod on its way. assumed is what the scheduler's cache has of it.
type promise struct {
	assumed *corev1.Pod
	holding [][2]int64 // by device: milli, MiB
	sent    bool
}

func (h *history) restart() {
	h.restarts++
	// A Binding that is on its way when the scheduler dies is written or not.
	for _, p := range h.promised {
		if !p.sent && h.rand.IntN(2) == 0 {
			h.write(p)
		}
	}
	h.profile, h.pl = newProfile(h.t, gpuArgs(withStrategy(h.strategy)), schedtest.Options{})
	h.profile.Start(h.t.Context(), h.t)
	<-h.pl.ledger.synced.Done()
	h.logger, _ = ktestingContext(h.t)
	h.logger = h.logger.V(10)
	h.live = newLiveCache(h.t, h.profile)
	h.events = h.pl.ledger.podHandler(klog.Logger{})
	h.promised, h.late = nil, nil
	for _, node := range h.nodes {
		h.live.AddNode(h.logger, node)
	}
	for _, uid := range slices.Sorted(maps.Keys(h.api)) {
		pod := h.api[uid]
		if pod.Spec.NodeName == "" {
			continue
		}
		h.must(h.live.AddPod(h.logger, pod))
		h.events.OnAdd(pod, true)
	}
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) step() {
	switch n := h.rand.IntN(20); {
	case n < 9:
		h.place()
	case n < 12:
		h.bind(false)
	case n < 13:
		h.bind(true)
	case n < 14:
		h.giveUp()
	case n < 17:
		h.deletePod()
	case n < 18 && h.rand.IntN(4) == 0:
		h.restart()
	default:
		h.deliver()
	}
}

// place runs a scheduling cycle for a new pod, up to Reserve.
func (h *history) place() {
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
	h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
	state := framework.NewCycleState()
	if _, status, _ := h.profile.RunPreFilterPlugins(h.t.Context(), state, pod); !status.IsSuccess() {
		h.t.Fatalf("PreFilter: %v", status)
	}
	var feasible []fwk.NodeInfo
	for _, info := range snapshotNodes(h.t, h.profile) {
		if h.profile.RunFilterPlugins(h.t.Context(), state, pod, info).IsSuccess() {
			feasible = append(feasible, info)
		}
	}
	if len(feasible) == 0 {
		return
	}
	h.api[pod.UID] = pod
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = feasible[h.rand.IntN(len(feasible))].Node().Name
	h.must(h.live.AssumePod(h.logger, assumed))
	show(h.t, h.profile, pod)
	if status := h.profile.RunReservePluginsReserve(h.t.Context(), state, assumed, assumed.Spec.NodeName); !status.IsSuccess() {
		h.t.Fatalf("Filter let %s through and Reserve did not: %v", pod.Name, status)
	}
	h.placed++
	p := &promise{assumed: assumed}
	for _, share := range h.pl.ledger.get(pod.UID).holding {
		p.holding = append(p.holding, [2]int64{share.Milli, share.MemoryMiB})
	}
	h.promised = append(h.promised, p)
}

// take removes a promise that satisfies the condition and returns it, or nil.
func (h *history) take(condition func(*promise) bool) *promise {
	for i, p := range h.promised {
		if condition(p) {
			h.promised = slices.Delete(h.promised, i, i+1)
			return p
		}
	}
	return nil
}

// write is what the API server does with a Binding.
func (h *history) write(p *promise) *corev1.Pod {
	annotations := h.pl.ledger.get(p.assumed.UID).annotations
	onNode := h.api[p.assumed.UID].DeepCopy()
	onNode.Spec.NodeName = p.assumed.Spec.NodeName
	for key, value := range annotations {
		annotated(onNode, key, value)
	}
	h.api[onNode.UID] = onNode
	return onNode
}

// bind writes the Binding of a promised pod. If the answer is lost, the ledger is
// told that it is in doubt before it hears of the pod.
func (h *history) bind(lost bool) {
	p := h.take(func(p *promise) bool { return !p.sent })
	if p == nil {
		return
	}
	if _, ok := h.api[p.assumed.UID]; !ok {
		h.forget(p)
		return
	}
	pending := h.api[p.assumed.UID]
	if lost {
		h.lost++
		h.pl.ledger.doubt(p.assumed.UID, true)
	}
	onNode := h.write(p)
	p.sent = true
	h.promised = append(h.promised, p)
	h.later(
		func() { h.events.OnUpdate(pending, onNode) },
		func() {
			h.must(h.live.AddPod(h.logger, onNode))
			h.take(func(other *promise) bool { return other == p })
		},
	)
}

// giveUp ends a cycle after Reserve without a Binding, or with one that was
// clearly refused.
func (h *history) giveUp() {
	if p := h.take(func(p *promise) bool { return !p.sent }); p != nil {
		h.forget(p)
	}
}

func (h *history) forget(p *promise) {
	delete(h.api, p.assumed.UID)
	h.profile.RunReservePluginsUnreserve(h.t.Context(), framework.NewCycleState(), p.assumed, p.assumed.Spec.NodeName)
	h.must(h.live.ForgetPod(h.logger, p.assumed))
}

// deletePod deletes a pod that runs.
func (h *history) deletePod() {
	h.deliver() // what the scheduler does not know yet it cannot see deleted
	var running []types.UID
	for _, uid := range slices.Sorted(maps.Keys(h.api)) {
		if h.api[uid].Spec.NodeName != "" {
			running = append(running, uid)
		}
	}
	if len(running) == 0 {
		return
	}
	gone := h.api[running[h.rand.IntN(len(running))]]
	delete(h.api, gone.UID)
	h.later(
		func() { h.events.OnDelete(gone) },
		func() { h.must(h.live.RemovePod(h.logger, gone)) },
	)
}

// later delivers events in any order, some time.
func (h *history) later(events ...func()) {
	h.rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	h.late = append(h.late, events...)
	if h.rand.IntN(2) == 0 {
		h.deliver()
	} else {
		h.late[0]()
		h.late = h.late[1:]
	}
}

func (h *history) deliver() {
	for len(h.late) > 0 {
		event := h.late[0]
		h.late = h.late[1:]
		event()
	}
}

// check computes what is taken from the API's pods and the promises, and compares.
func (h *history) check() {
	h.t.Helper()
	h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
	for i, node := range h.nodes {
		used := make([][2]int64, 2+i)
		add := func(d int, milli, memory int64) {
			used[d][0] += milli
			used[d][1] += memory
		}
		for _, pod := range h.api {
			if pod.Spec.NodeName == node.Name {
				h.addRecord(pod, add)
			}
		}
		for _, p := range h.promised {
			if p.assumed.Spec.NodeName == node.Name && h.api[p.assumed.UID].Spec.NodeName == "" {
				for d := range used {
					add(d, p.holding[d][0], p.holding[d][1])
				}
			}
		}
		got := make([][2]int64, 2+i)
		v := h.pl.view(nodeInfo(h.t, h.profile, node.Name), false)
		if v.unassigned || v.crowded {
			h.t.Fatalf("node %s takes nothing: unassigned %t, crowded %t", node.Name, v.unassigned, v.crowded)
		}
		for d := range got {
			free := v.state.Free(d)
			got[d] = [2]int64{1000 - free.Milli, a100Memory - free.MemoryMiB}
			if used[d][0] > 1000 || used[d][1] > a100Memory {
				h.t.Fatalf("device %d of node %s is given away twice: %v", d, node.Name, used[d])
			}
		}
		if len(h.late) > 0 {
			// A deletion that the cache has not heard of holds its devices still; what
			// the API has is there in any case.
			for d := range got {
				if got[d][0] < used[d][0] || got[d][1] < used[d][1] {
					h.t.Fatalf("device %d of node %s: %v are used, and the plugin knows of %v", d, node.Name, used[d], got[d])
				}
			}
			continue
		}
		if diff := cmp.Diff(used, got); diff != "" {
			h.t.Fatalf("node %s (-API,+plugin):\n%s", node.Name, diff)
		}
	}
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
