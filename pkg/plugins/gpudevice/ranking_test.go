// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// checkRanking compares what is remembered of all nodes for the pod with what Filter and
// Score would say of each if nothing were.
func checkRanking(t *testing.T, pl *GPUDevice, pod *corev1.Pod, nodes []fwk.NodeInfo) {
	t.Helper()
	s := &preFilterState{podRequest: podRequestOf(t, pl, pod), maxNode: pl.updateCluster(nodes)}
	want := make([]int32, len(nodes))
	for i, nodeInfo := range nodes {
		state, _ := pl.allocations.nodeStateOf(nodeInfo.Node().Name)
		v := pl.computeView(nodeInfo, nil, state, "")
		switch want[i] = candidates.Unfit; {
		case v.check(s) != device.Fits:
		case s.isWithoutDevices() && !v.hasDevices():
			want[i] = noDevicesScore
		case !v.hasUsage:
			want[i] = 0
		default:
			want[i] = int32(pl.strategy.Score(device.CandidateNode{
				Usage: &v.usage, CPUMilli: v.cpuFree, MaxNode: s.maxNode, Workload: pl.workload.published.Load().forNode(v.node),
			}, s.podRequest))
		}
	}
	ranking := pl.rank(s, nodes)
	if diff := cmp.Diff(want, ranking.Scores); diff != "" {
		t.Fatalf("pod %s: ranking (-Filter and Score,+remembered):\n%s", pod.Name, diff)
	}
	if want := s.isWithoutDevices() || pl.workload.read; ranking.Ordinal != want {
		t.Fatalf("ordinal %v, want %v", ranking.Ordinal, want)
	}
}

// TestRankings changes nodes, pods, slices and what is expected at random, and compares
// what is remembered of all nodes with what Filter and Score say.
func TestRankings(t *testing.T) {
	for seed := range uint64(8) {
		strategy := []config.GPUDeviceStrategy{config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit}[seed%2]
		t.Run(fmt.Sprintf("seed=%d/%s", seed, strategy), func(t *testing.T) {
			h := &rankingHistory{process: newProcess(t, seed, 2), nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{}}
			h.start(gpuArgs(withStrategy(strategy)))
			h.pl.publishedSlices.claims = &device.Claims{Drivers: device.DefaultDRADrivers(), Keys: h.pl.nodeKeys}
			for range 40 {
				h.addNode()
			}
			updates := 0
			for range 400 {
				for range h.rand.IntN(4) {
					h.step()
				}
				h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
				before := h.pl.rankings.last
				checkRanking(t, h.pl, h.pod(), h.profile.Nodes(t))
				if after := h.pl.rankings.last; len(before) > 0 && &before[0] == &after[0] {
					updates++
				}
			}
			if updates < 200 {
				t.Errorf("only %d rankings were of the same nodes as the one before: the history shows little", updates)
			}
		})
	}
}

// rankingHistory is a cluster that changes.
type rankingHistory struct {
	process

	nodes map[string]*corev1.Node
	pods  map[types.UID]*corev1.Pod
	count int
}

func (h *rankingHistory) step() {
	switch n := h.rand.IntN(100); {
	case n < 2:
		h.addNode()
	case n < 4:
		h.removeNode()
	case n < 14:
		h.updateNode()
	case n < 16:
		h.publish()
	case n < 18:
		h.pl.workload.publish(h.expected())
	case n < 70:
		h.place()
	default:
		if gone := oneOf(h.rand, h.pods); gone != nil {
			delete(h.pods, gone.UID)
			h.must(h.store().Delete(gone))
			h.events.OnDelete(gone)
			h.must(h.live.RemovePod(h.logger, gone))
		}
	}
}

func (h *rankingHistory) addNode() {
	h.count++
	name := fmt.Sprintf("n%d", h.count)
	var node *corev1.Node
	switch h.rand.IntN(5) {
	case 0:
		node = makeNode(name, map[string]string{})
	case 1:
		node = pluginNode(name, a100, 1+h.rand.IntN(8))
	default:
		node = gpuNode(name, 1+h.rand.IntN(8))
	}
	h.nodes[name] = node
	h.live.AddNode(h.logger, node)
	h.pl.allocations.observeNode(node)
}

func (h *rankingHistory) removeNode() {
	node := oneOf(h.rand, h.nodes)
	if node == nil || slices.ContainsFunc(slices.Collect(maps.Values(h.pods)), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name }) {
		return
	}
	delete(h.nodes, node.Name)
	h.must(h.live.nodes.Delete(node))
	h.pl.allocations.removeNode(node.Name)
	h.must(h.live.RemoveNode(h.logger, node))
}

func (h *rankingHistory) updateNode() {
	old := oneOf(h.rand, h.nodes)
	node := old.DeepCopy()
	switch h.rand.IntN(3) {
	case 0:
		labeled(node, "nvidia.com/gpu.product", []string{a100, "NVIDIA-L4"}[h.rand.IntN(2)])
	case 1:
		annotated(node, names.GPUCordonedAnnotation, "0")
	default:
		delete(node.Annotations, names.GPUCordonedAnnotation)
	}
	h.nodes[node.Name] = node
	h.live.UpdateNode(h.logger, old, node)
	h.pl.allocations.observeNode(node)
}

// publish lets a DRA driver publish the devices of a node, or no longer.
func (h *rankingHistory) publish() {
	node := oneOf(h.rand, h.nodes)
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: types.UID("slice-of-" + node.Name)},
		Spec:       resourcev1.ResourceSliceSpec{NodeName: &node.Name, Driver: "gpu.nvidia.com", Devices: []resourcev1.Device{{Name: "gpu-0"}}},
	}
	if h.pl.publishedSlices.on(node) {
		h.pl.publishedSlices.observe(slice, nil)
		return
	}
	h.pl.publishedSlices.observe(nil, slice)
}

func (h *rankingHistory) expected() *device.Workload {
	expected, err := device.NewWorkload([]device.Class{
		{Shape: device.Shape{CPUMilli: 1000, Milli: 1 + h.rand.Int64N(999), Devices: 1}, Weight: 1 + h.rand.Int64N(9)},
		{Shape: device.Shape{CPUMilli: 4000, Milli: device.MilliPerDevice, Devices: 1}, Weight: 5},
	})
	h.must(err)
	return expected
}

// place reserves devices for a pod on a node where it fits, and binds it there or gives it
// up.
func (h *rankingHistory) place() {
	h.must(h.live.UpdateSnapshot(h.logger, h.live.snapshot))
	h.count++
	pod := sharePod(fmt.Sprintf("p%d", h.count), 100*(1+h.rand.IntN(9)))
	h.must(h.store().Add(pod))
	state := framework.NewCycleState()
	if _, status, _ := h.profile.RunPreFilterPlugins(h.t.Context(), state, pod); !status.IsSuccess() {
		return
	}
	for _, i := range h.rand.Perm(len(h.profile.Nodes(h.t))) {
		info := h.profile.Nodes(h.t)[i]
		if !h.profile.RunFilterPlugins(h.t.Context(), state, pod, info).IsSuccess() {
			continue
		}
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = info.Node().Name
		h.must(h.live.AssumePod(h.logger, assumed))
		if status := h.profile.RunReservePluginsReserve(h.t.Context(), state, assumed, assumed.Spec.NodeName); !status.IsSuccess() {
			h.t.Fatal(status)
		}
		if h.rand.IntN(4) == 0 {
			h.profile.RunReservePluginsUnreserve(h.t.Context(), state, assumed, assumed.Spec.NodeName)
			h.must(h.live.ForgetPod(h.logger, assumed))
			return
		}
		for key, value := range h.pl.allocations.get(pod.UID).annotations {
			annotated(assumed, key, value)
		}
		h.must(h.store().Add(assumed))
		h.events.OnUpdate(pod, assumed)
		h.must(h.live.AddPod(h.logger, assumed))
		h.pods[assumed.UID] = assumed
		return
	}
}

// pod returns a pod to rank the nodes for: a few shapes come often, many seldom.
func (h *rankingHistory) pod() *corev1.Pod {
	switch n := h.rand.IntN(20); {
	case n < 2:
		return makePod("none")
	case n < 4:
		return makePod("plugin", "nvidia.com/gpu", strconv.Itoa(1+h.rand.IntN(2)))
	case n < 6:
		return annotated(sharePod("model", 500), names.GPUModelAnnotation, []string{a100, "NVIDIA-L4"}[h.rand.IntN(2)])
	case n < 7:
		return annotated(sharePod("memory", 500), names.GPUMinMemoryAnnotation, []string{"10Gi", "50Gi"}[h.rand.IntN(2)])
	case n < 9:
		return sharePod("seldom", 1+h.rand.IntN(999))
	default:
		return sharePod("often", 100*(1+h.rand.IntN(5)))
	}
}

// TestRankingsAreBounded ranks the nodes for more kinds of pods than are remembered.
func TestRankingsAreBounded(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("a", 2), gpuNode("b", 4)}})
	for milli := range 2 * maxRanked {
		checkRanking(t, pl, sharePod("p", 1+milli), profile.Nodes(t))
		checkRanking(t, pl, sharePod("first", 1), profile.Nodes(t))
	}
	if len(pl.rankings.ranked) > maxRanked {
		t.Errorf("%d kinds are remembered, want %d at most", len(pl.rankings.ranked), maxRanked)
	}
	if r := pl.rankings.ranked[rankedKind{request: podRequestOf(t, pl, sharePod("p", 1)).Request.Key()}]; r == nil {
		t.Error("the kind of pod that comes always was forgotten")
	}
}

// TestChangeLog follows a log from several places.
func TestChangeLog(t *testing.T) {
	var log changeLog[int]
	for i := range 100 {
		log.add(i, 10)
		got, all := log.since(log.end() - 1)
		if diff := cmp.Diff([]int{i}, got); diff != "" || !all {
			t.Fatalf("the last change (-want,+got), all %v:\n%s", all, diff)
		}
	}
	if got, all := log.since(0); all || got != nil {
		t.Errorf("changes that were dropped: %v, all %v", got, all)
	}
	if got, all := log.since(log.dropped); !all || got[0] != int(log.dropped) || len(got) > 11 {
		t.Errorf("all that are left: %v, all %v", got, all)
	}
	if _, all := log.since(log.end() + 1); all {
		t.Error("a reader that is ahead of the log has seen another one")
	}
}

// One operation is what a cycle of a share does to rank all nodes: since the last of its
// kind 20 others have changed, because 20 pods of other kinds were placed.
func BenchmarkRank(b *testing.B) {
	for _, count := range []int{1000, 5000, 15000} {
		profile, pl := startProfile(b, realisticArgs(), busyCluster(count))
		nodes := profile.Nodes(b)
		pod := sharePod("p", 100)
		s := &preFilterState{podRequest: podRequestOf(b, pl, pod), maxNode: pl.updateCluster(nodes)}
		pl.rank(s, nodes)
		random := rand.New(rand.NewPCG(1, 1))
		for _, changed := range []int{0, 1, 20} {
			b.Run(fmt.Sprintf("nodes=%d/changed=%d", count, changed), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for range changed {
						name := nodes[random.IntN(count)].Node().Name
						pl.allocations.raiseRevision(name, pl.nodes.get(name).state)
					}
					if ranking := pl.rank(s, nodes); len(ranking.Scores) != count {
						b.Fatal(len(ranking.Scores))
					}
				}
			})
		}
		b.Run(fmt.Sprintf("nodes=%d/changed=all", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pl.rankings.ranked = map[rankedKind]*rankedNodes{}
				pl.rank(s, nodes)
			}
		})
	}
}
