// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// Each strategy on the same three nodes: one empty, one whose only open device is
// half full, one with a device that is nearly full.
func TestScores(t *testing.T) {
	nodes := []*corev1.Node{gpuNode("empty", 2), gpuNode("half", 2), gpuNode("tight", 2)}
	pods := []*corev1.Pod{
		boundPod("half-0", 500, "half", "0"),
		boundPod("tight-0", 700, "tight", "0"), boundPod("tight-1", 1000, "tight", "1"),
	}
	workload := []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1000}, {Weight: 1, GPUMilli: 300}}
	tests := []struct {
		strategy config.GPUDeviceStrategy
		pod      *corev1.Pod
		want     map[string]int64
	}{
		// Only the empty devices are of use to whole pods, and taking the last 300
		// thousandths of a device makes nothing useless: an order.
		{config.GPUDeviceFragmentationGradient, sharePod("p", 300), map[string]int64{"tight": 100, "half": 99, "empty": 98}},
		{config.GPUDeviceBestFit, sharePod("p", 300), map[string]int64{"tight": 50, "half": 20, "empty": 7}},
		{config.GPUDeviceMostAllocated, sharePod("p", 300), map[string]int64{"tight": 100, "half": 40, "empty": 15}},
		{config.GPUDeviceLeastAllocated, sharePod("p", 300), map[string]int64{"tight": 0, "half": 60, "empty": 85}},
	}
	for _, tt := range tests {
		t.Run(string(tt.strategy), func(t *testing.T) {
			args := gpuArgs(withStrategy(tt.strategy))
			if tt.strategy == config.GPUDeviceFragmentationGradient {
				args.ExpectedWorkload = workload
			}
			profile, _ := startProfile(t, args, schedtest.Options{Nodes: nodes, Pods: pods})
			// The second time they come from memory.
			for range 2 {
				if diff := cmp.Diff(tt.want, profile.Scores(t.Context(), t, tt.pod)); diff != "" {
					t.Errorf("Unexpected scores (-want,+got):\n%s", diff)
				}
			}
		})
	}
}

// TestScoresBehindExtender: an extender that filters has the framework score nodes as if no
// pod were on them. The devices of each are in use nevertheless.
func TestScoresBehindExtender(t *testing.T) {
	profile, _ := startProfile(t, gpuArgs(withStrategy(config.GPUDeviceMostAllocated)), schedtest.Options{
		Nodes:     []*corev1.Node{gpuNode("empty", 1), gpuNode("half", 1)},
		Pods:      []*corev1.Pod{boundPod("half-0", 500, "half", "0")},
		Extenders: []fwk.Extender{filterExtender{}},
	})
	var filtered []fwk.NodeInfo
	for _, node := range profile.Nodes(t) { // as HTTPExtender.Filter does
		info := framework.NewNodeInfo()
		info.SetNode(node.Node().DeepCopy())
		filtered = append(filtered, info)
	}
	pod := sharePod("p", 500)
	state := profile.NewCycle(t.Context(), t, pod)
	succeed(t, profile.RunPreScorePlugins(t.Context(), state, pod, filtered))
	scored, status := profile.RunScorePlugins(t.Context(), state, pod, filtered)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	got := map[string]int64{}
	for _, node := range scored {
		got[node.Name] = node.TotalScore
	}
	if diff := cmp.Diff(map[string]int64{"half": 100, "empty": 50}, got); diff != "" {
		t.Errorf("Unexpected scores (-want,+got):\n%s", diff)
	}
}

// filterExtender filters nodes for every pod.
type filterExtender struct{ fwk.Extender }

func (filterExtender) IsFilter() bool                { return true }
func (filterExtender) IsBinder() bool                { return false }
func (filterExtender) IsInterested(*corev1.Pod) bool { return true }

// A node with a device plugin need not tell the memory of its devices. It is scored
// beside nodes that do, whatever is expected.
func TestScoresWithoutMemoryLabel(t *testing.T) {
	untold := pluginNode("untold", a100, 2)
	delete(untold.Labels, "nvidia.com/gpu.memory")
	args := gpuArgs()
	args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMemory: resource.MustParse("10Gi")}, {Weight: 1, GPUMilli: 1000}}
	profile, _ := startProfile(t, args, schedtest.Options{Nodes: []*corev1.Node{untold, pluginNode("told", a100, 2), gpuNode("shared", 2)}})
	memory := makePod("memory")
	memory.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"berth.dev/gpu-memory": resource.MustParse("10Gi")}
	whole := makePod("whole")
	whole.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	whole.Spec.Containers[0].Resources.Requests = whole.Spec.Containers[0].Resources.Limits
	for _, pod := range []*corev1.Pod{memory, whole, makePod("none")} {
		for node, score := range profile.Scores(t.Context(), t, pod) {
			if score < fwk.MinScore || score > fwk.MaxScore {
				t.Errorf("%s on %s scores %d", pod.Name, node, score)
			}
		}
	}
}

// Pods without devices prefer nodes without devices over every other, and leave
// the devices to those who need them where they must share a node.
func TestScoresOfPodsWithoutDevices(t *testing.T) {
	nodes := []*corev1.Node{makeNode("plain", nil), gpuNode("shared", 2), gpuNode("full", 1), pluginNode("plugin", a100, 1)}
	pods := []*corev1.Pod{boundPod("whole", 1000, "full", "0")}
	for _, strategy := range []config.GPUDeviceStrategy{config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit, config.GPUDeviceMostAllocated} {
		t.Run(string(strategy), func(t *testing.T) {
			profile, _ := startProfile(t, gpuArgs(withStrategy(strategy)), schedtest.Options{Nodes: nodes, Pods: pods})
			scores := profile.Scores(t.Context(), t, makePod("p"))
			if scores["plain"] != fwk.MaxScore {
				t.Errorf("the node without devices scores %d", scores["plain"])
			}
			for _, node := range []string{"shared", "full", "plugin"} {
				if scores[node] >= fwk.MaxScore {
					t.Errorf("%s scores %d", node, scores[node])
				}
			}
			if strategy != config.GPUDeviceMostAllocated && scores["full"] <= scores["shared"] {
				t.Errorf("the full node scores %d, the empty one %d", scores["full"], scores["shared"])
			}
		})
	}
	profile, _ := startProfile(t, gpuArgs(withNonGPUPods(config.NonGPUPodsAllow)), schedtest.Options{Nodes: nodes, Pods: pods})
	if scores := profile.Scores(t.Context(), t, makePod("p")); len(scores) != 0 {
		t.Errorf("where they are allowed they are scored: %v", scores)
	}
	// Where no node has devices there is nothing to prefer, and nothing to pay for.
	profile, _ = startProfile(t, gpuArgs(), schedtest.Options{Nodes: nodes[:1]})
	if scores := profile.Scores(t.Context(), t, makePod("p")); len(scores) != 0 {
		t.Errorf("without devices anywhere they are scored: %v", scores)
	}
	// A node whose labels tell too little of its devices is still one with devices.
	broken := makeNode("broken", map[string]string{"berth.dev/gpu-sharing": "true"})
	profile, _ = startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{nodes[0], broken}})
	if scores := profile.Scores(t.Context(), t, makePod("p")); scores["broken"] >= scores["plain"] {
		t.Errorf("the node of which too little is known is not avoided: %v", scores)
	}
}

func TestRank(t *testing.T) {
	tests := []struct {
		name string
		raw  []int64
		want []int64
	}{
		{"one", []int64{7}, []int64{100}},
		{"equal ones stay equal", []int64{5, 5, 5}, []int64{100, 100, 100}},
		{"the order stays", []int64{0, 10201, 4, 10200}, []int64{97, 100, 98, 99}},
		{"zero is a score", []int64{0, 0}, []int64{100, 100}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			scores := fwk.NodeScoreList{}
			for _, raw := range tt.raw {
				scores = append(scores, fwk.NodeScore{Score: raw})
			}
			candidates.NormalizeScores(scores)
			got := []int64{}
			for _, score := range scores {
				got = append(got, score.Score)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected ranks (-want,+got):\n%s", diff)
			}
		})
	}
	t.Run("the best hundred are told apart", func(t *testing.T) {
		scores := fwk.NodeScoreList{}
		for raw := range int64(300) {
			scores = append(scores, fwk.NodeScore{Score: 3 * raw})
		}
		candidates.NormalizeScores(scores)
		for i := range scores {
			if want := max(0, int64(i)-199); scores[i].Score != want {
				t.Fatalf("rank of %d: want %d, got %d", 3*i, want, scores[i].Score)
			}
		}
	})
}

// A remembered score is not for pods of another kind: who insists on some devices
// pays no price for a scarce one.
func TestScoresAreNotRememberedForOthers(t *testing.T) {
	nodes := []*corev1.Node{gpuNode("rare", 1), gpuNode("plenty", 3)}
	nodes[0].Labels["nvidia.com/gpu.product"] = "RARE"
	args := gpuArgs()
	args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1000}, {Weight: 1, GPUMilli: 1000, GPUModel: "RARE"}}
	anybody := func() *corev1.Pod { return sharePod("anybody", 1000) }
	pods := []struct {
		name string
		make func() *corev1.Pod
	}{
		{"anybody", anybody},
		{"a model", func() *corev1.Pod { return annotated(anybody(), "berth.dev/gpu-model", "RARE,"+a100) }},
		{"memory", func() *corev1.Pod { return annotated(anybody(), "berth.dev/gpu-min-memory", "1Gi") }},
	}
	// scores returns what the pods score in turn on the rare node.
	scores := func(turn ...func() *corev1.Pod) []int64 {
		t.Helper()
		profile, pl := startProfile(t, args, schedtest.Options{Nodes: nodes})
		var all []int64
		for _, pod := range turn {
			state := profile.NewCycle(t.Context(), t, pod())
			succeed(t, pl.PreScore(t.Context(), state, pod(), profile.Nodes(t)))
			score, status := pl.Score(t.Context(), state, pod(), nodeInfo(t, profile, "rare"))
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			all = append(all, score)
		}
		return all
	}
	if scores(pods[0].make)[0] >= scores(pods[1].make)[0] {
		t.Fatal("nobody pays a price: the test shows nothing")
	}
	for _, first := range pods {
		for _, second := range pods {
			want := []int64{scores(first.make)[0], scores(second.make)[0]}
			if diff := cmp.Diff(want, scores(first.make, second.make)); diff != "" {
				t.Errorf("%s and then %s (-each alone,+in turn):\n%s", first.name, second.name, diff)
			}
		}
	}
}

// TestWhatIsNotScoredChangesNothing: where pods without devices are let alone, the
// nodes that they fit, often some of all, say nothing of what devices there are. To
// look at those would make every remembered score worthless, twice for each such pod.
func TestWhatIsNotScoredChangesNothing(t *testing.T) {
	rare := gpuNode("rare", 1)
	rare.Labels["nvidia.com/gpu.product"] = "RARE"
	profile, pl := startProfile(t, gpuArgs(withNonGPUPods(config.NonGPUPodsAllow)), schedtest.Options{Nodes: []*corev1.Node{rare, gpuNode("plenty", 1)}})
	cycle := func(pod *corev1.Pod, nodes []fwk.NodeInfo) {
		t.Helper()
		state := profile.NewCycle(t.Context(), t, pod)
		if status := pl.PreScore(t.Context(), state, pod, nodes); !status.IsSuccess() && !status.IsSkip() {
			t.Fatal(status)
		}
	}
	all := profile.Nodes(t)
	cycle(sharePod("share", 500), all)
	before := pl.workload.epoch
	if before == 0 {
		t.Fatal("nothing was learned")
	}
	cycle(makePod("none"), all[:1])
	cycle(sharePod("share", 500), all)
	if pl.workload.epoch != before {
		t.Errorf("what is expected was published %d times because of a pod without devices", pl.workload.epoch-before)
	}
}

// TestRememberedScoresAreRight lets pods of all kinds come in a random order, and
// computes every score a second time. What is expected is learned from them, so it
// changes meanwhile.
func TestRememberedScoresAreRight(t *testing.T) {
	var nodes []*corev1.Node
	for i, model := range []string{a100, "RARE", a100, "RARE", a100} {
		node := gpuNode(fmt.Sprintf("n%d", i), 1+i)
		node.Labels["nvidia.com/gpu.product"] = model
		nodes = append(nodes, node)
	}
	nodes = append(nodes, pluginNode("plugin", "RARE", 4), makeNode("plain", nil))
	for _, strategy := range []config.GPUDeviceStrategy{config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit} {
		t.Run(string(strategy), func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 0)) //nolint:gosec // reproducible on purpose
			profile, pl := startProfile(t, gpuArgs(withStrategy(strategy)), schedtest.Options{Nodes: nodes})
			different := map[int64]bool{}
			for i := range 400 {
				pod := sharePod(fmt.Sprintf("p%d", i), []int{100, 460, 1000}[random.IntN(3)])
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(1+random.IntN(2)), resource.DecimalSI)}
				switch random.IntN(4) {
				case 0:
					annotated(pod, "berth.dev/gpu-model", "RARE")
				case 1:
					annotated(pod, "berth.dev/gpu-model", "*")
				case 2:
					annotated(pod, "berth.dev/gpu-min-memory", "1Gi")
				}
				state := profile.NewCycle(t.Context(), t, pod)
				all := profile.Nodes(t)
				succeed(t, pl.PreScore(t.Context(), state, pod, all))
				prepared, err := getPreScoreState(state)
				must(t, err)
				for _, info := range all {
					if pl.Filter(t.Context(), state, pod, info) != nil {
						continue
					}
					got, status := pl.Score(t.Context(), state, pod, info)
					if !status.IsSuccess() {
						t.Fatal(status)
					}
					v := pl.view(info, false)
					input := device.CandidateNode{Usage: &v.usage, CPUMilli: v.cpuFree, MaxNode: prepared.maxNode, Workload: pl.workload.published.Load().forNode(v.node)}
					if want := pl.strategy.Score(input, prepared.podRequest); got != want {
						t.Fatalf("%s on %s: %d, but computed again %d", pod.Name, info.Node().Name, got, want)
					}
					different[got] = true
				}
			}
			if len(different) < 20 {
				t.Errorf("only %d different scores: this test shows little", len(different))
			}
		})
	}
}
