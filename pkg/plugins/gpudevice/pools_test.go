// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func withPool(pool string) func(*config.GPUDeviceArgs) {
	return func(args *config.GPUDeviceArgs) { args.Pool = pool }
}

// ofPool returns the node in a pool.
func ofPool(node *corev1.Node, pool string) *corev1.Node {
	return labeled(node, names.GPUPoolLabel, pool)
}

// A scheduler shares the devices of its pool and of no other, whatever else is the matter
// with a node, and pods without shares are kept off as from any shared node.
func TestPools(t *testing.T) {
	nodes := []*corev1.Node{
		makeNode("plain", nil), pluginNode("plugin", a100, 2), ofPool(pluginNode("pooled-plugin", a100, 2), "a"),
		gpuNode("none", 2), ofPool(gpuNode("empty", 2), ""), ofPool(gpuNode("a", 2), "a"), ofPool(gpuNode("b", 2), "b"),
		ofPool(labeled(gpuNode("broken-b", 2), "nvidia.com/gpu.count", "x"), "b"),
		ofPool(labeled(gpuNode("unclear-b", 2), names.GPUSharingLabel, "yes"), "b"),
	}
	pods := []*corev1.Pod{boundPod("on-a", 500, "a", "0"), boundPod("on-b", 500, "b", "0"), boundPod("on-none", 500, "none", "0")}
	for _, tt := range []struct {
		pool, never string
		free        []string
		capacity    float64
	}{
		{pool: "", free: []string{"none", "empty"}, capacity: 4000},
		{pool: "a", free: []string{"a"}, capacity: 2000},
		{pool: "c", never: "no node of GPU pool c shares its devices: a limit berth.dev/gpu-milli or berth.dev/gpu-memory needs a node with the labels berth.dev/gpu-sharing=true and berth.dev/gpu-pool=c"},
	} {
		t.Run("pool "+tt.pool, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(withPool(tt.pool)), schedtest.Options{Name: t.Name(), Nodes: nodes, Pods: pods})
			verdicts, status := profile.Filter(t.Context(), t, sharePod("p", 100))
			if tt.never != "" {
				if status.Message() != tt.never {
					t.Errorf("want %q, got %q", tt.never, status.Message())
				}
				return
			}
			want := map[string]string{"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "pooled-plugin": reasonTexts[device.NodeNotShared]}
			for _, node := range nodes[3:] {
				want[node.Name] = reasonTexts[device.OtherPool]
			}
			for _, name := range tt.free {
				want[name] = ""
			}
			if diff := cmp.Diff(want, verdicts); diff != "" {
				t.Errorf("a share (-want,+got):\n%s", diff)
			}
			got := served(t, profile.ProfileName())
			if got["capacity_milli nvidia-a100"] != tt.capacity || got["allocated_milli nvidia-a100"] != 500 || got["refused_nodes InvalidCount"]+got["refused_nodes InvalidSharing"] != 0 {
				t.Errorf("want %v of capacity, 500 allocated and no refused node in the metrics, got %v", tt.capacity, got)
			}
			if weight := pl.workload.learner.seen; len(weight) != 2 {
				t.Errorf("learned from %v, want the pod of the pool and the one that is scheduled", weight)
			}
			verdicts, _ = profile.Filter(t.Context(), t, makePod("plugin", "nvidia.com/gpu", "1"))
			for _, node := range nodes[3:] {
				if verdicts[node.Name] != reasonTexts[device.NodeIsShared] && !strings.Contains(verdicts[node.Name], "label") {
					t.Errorf("a pod of a device plugin on %s: got %q", node.Name, verdicts[node.Name])
				}
			}
		})
	}
}

// TestOtherInstance: a share that another scheduler gives on a node of the pool, while this one
// gives shares, closes the node until its pod is gone or the label says otherwise. Nothing
// else does.
func TestOtherInstance(t *testing.T) {
	tests := []struct {
		name      string
		node      *corev1.Node
		scheduler string
		// unprepared is that this process has not prepared yet when it sees the Binding, seenBound
		// that the pod was bound when it was first seen, and keptBack that it could not be fenced.
		unprepared, seenBound, keptBack bool
		// version is that of the bound pod. This process has prepared at version 100.
		version string
		closed  bool
	}{
		{name: "another instance", node: gpuNode("n", 2), scheduler: "other", closed: true},
		{name: "its own profile", node: gpuNode("n", 2), scheduler: t.Name()},
		{name: "another instance, after this process has prepared", node: gpuNode("n", 2), scheduler: "other", version: "101", closed: true},
		{name: "a process of this instance, before this one led", node: gpuNode("n", 2), scheduler: "other", unprepared: true},
		{name: "a process of this instance, seen late", node: gpuNode("n", 2), scheduler: "other", version: "100"},
		{name: "a process of this instance, of a pod that could not be fenced", node: gpuNode("n", 2), scheduler: "other", version: "101", keptBack: true},
		{name: "from before", node: gpuNode("n", 2), scheduler: "other", seenBound: true},
		{name: "a node of another pool", node: ofPool(gpuNode("n", 2), "b"), scheduler: "other"},
		{name: "a node that is not shared", node: makeNode("n", nil), scheduler: "other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			open := gpuNode("open", 2)
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Name: strings.Split(t.Name(), "/")[0], Nodes: []*corev1.Node{tt.node, open}})
			pl.allocations.startup.version = "100"
			live := newLiveCache(t, profile)
			live.AddNode(klog.Background(), tt.node)
			live.AddNode(klog.Background(), open)
			h := handler(t, pl)
			pod := boundPod("theirs", 500, "n", "0")
			pod.Spec.SchedulerName, pod.ResourceVersion = tt.scheduler, tt.version
			if !tt.seenBound {
				pending := pod.DeepCopy()
				pending.Spec.NodeName = ""
				add(t, profile, h, pending)
				if tt.keptBack {
					pl.allocations.settle([]*corev1.Pod{pending}, []error{errors.New("a webhook does not answer")})
				}
				store(t, profile, pod)
				pl.allocations.startup.prepared.Store(!tt.unprepared)
				h.OnUpdate(pending, pod)
				pl.allocations.startup.prepared.Store(true)
			} else {
				add(t, profile, h, pod)
			}
			must(t, live.AddPod(klog.Background(), pod))
			verdict := func(t *testing.T) string {
				t.Helper()
				must(t, live.UpdateSnapshot(klog.Background(), live.snapshot))
				mine := sharePod("mine", 100)
				state := preFilterOrSkip(t, profile, mine)
				return pl.Filter(t.Context(), state, mine, nodeInfo(t, profile, "n")).Message()
			}
			told := drainEvents(profile, reasonPoolConflict)
			blocked := served(t, profile.ProfileName())["blocked_nodes"]
			if got := verdict(t); (got == reasonTexts[device.OtherInstance]) != tt.closed || (len(told) == 1) != tt.closed || (blocked == 1) != tt.closed {
				t.Fatalf("closed: want %t, got %q, the events %q and %v blocked nodes", tt.closed, got, told, blocked)
			}
			if !tt.closed {
				return
			}
			t.Run("the label says otherwise", func(t *testing.T) {
				nodes := pl.allocations.nodeHandler(klog.Background())
				elsewhere, back := ofPool(tt.node.DeepCopy(), "b"), tt.node.DeepCopy()
				live.UpdateNode(klog.Background(), tt.node, elsewhere)
				nodes.OnUpdate(tt.node, elsewhere)
				if got := verdict(t); got != reasonTexts[device.OtherPool] {
					t.Errorf("in another pool: got %q", got)
				}
				live.UpdateNode(klog.Background(), elsewhere, back)
				nodes.OnUpdate(elsewhere, back)
				if got := verdict(t); got != "" {
					t.Errorf("back in the pool: got %q", got)
				}
				if free := freeMilli(pl, nodeInfo(t, profile, "n")); !cmp.Equal(free, []int64{500, 1000}) {
					t.Errorf("free are %v, without what the other instance gave", free)
				}
			})
			t.Run("the pod is gone", func(t *testing.T) {
				pl.allocations.noteOtherInstance(klog.Background(), pl.allocations.get(pod.UID))
				if got := verdict(t); got != reasonTexts[device.OtherInstance] {
					t.Fatalf("got %q", got)
				}
				must(t, live.RemovePod(klog.Background(), pod))
				h.OnDelete(cache.DeletedFinalStateUnknown{Obj: pod})
				if got := verdict(t); got != "" {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// TestBindAfterTheNodeLeft: what was reserved on a node is not bound any more once the informer
// has seen that the node is another pool's, or not shared. What was sent may still be
// written, and is fenced.
func TestBindAfterTheNodeLeft(t *testing.T) {
	for name, changed := range map[string]*corev1.Node{
		"to another pool": ofPool(gpuNode("n", 2), "b"),
		"not shared":      labeled(gpuNode("n", 2), names.GPUSharingLabel, "false"),
	} {
		t.Run(name, func(t *testing.T) {
			profile, pl, pod, server := startBinding(t, 2, answer{write: true})
			state := profile.NewCycle(t.Context(), t, pod)
			succeed(t, profile.RunReservePluginsReserve(t.Context(), state, pod, "n"))
			must(t, nodeStore(profile).Update(changed))
			status := pl.Bind(t.Context(), state, pod, "n")
			if status.IsSuccess() || !strings.Contains(status.Message(), errNotOffered.Error()) || len(server.sent) > 0 {
				t.Errorf("want it refused without a request, got %v and %d Bindings", status, len(server.sent))
			}
		})
	}
}

// TestNotSentAgainAfterTheNodeLeft: the node leaves while a Binding has no clear answer. It is
// not sent again, and the pod is touched, so that what was sent is refused.
func TestNotSentAgainAfterTheNodeLeft(t *testing.T) {
	var profile *schedtest.Profile
	leaves := func(pod *corev1.Pod) *corev1.Pod {
		if err := nodeStore(profile).Update(ofPool(gpuNode("n", 2), "b")); err != nil {
			t.Error(err)
		}
		return pod
	}
	profile, pl, pod, server := startBinding(t, 2, answer{err: io.ErrUnexpectedEOF, then: leaves}, answer{write: true})
	state := profile.NewCycle(t.Context(), t, pod)
	succeed(t, profile.RunReservePluginsReserve(t.Context(), state, pod, "n"))
	status := pl.Bind(t.Context(), state, pod, "n")
	if status.IsSuccess() || len(server.sent) != 1 || server.touched == "" {
		t.Errorf("want one Binding and the pod fenced, got %v, %d Bindings and version %q", status, len(server.sent), server.touched)
	}
}
