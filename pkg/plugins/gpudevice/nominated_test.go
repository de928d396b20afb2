// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
)

// nominated is a nominator that knows the pods of one node.
type nominated struct {
	fwk.PodNominator
	pods []fwk.PodInfo
}

func (n *nominated) NominatedPodsForNode(string) []fwk.PodInfo { return n.pods }

// TestReserveLeavesRoomForNominatedPods places, on random nodes, a pod beside one that is
// nominated there for what it has evicted: if Filter has found room for both, the nominated pod
// still has room afterwards, and need not evict again. As many cases as the review had of
// commit 6aab2a6 run with BERTH_LONG=1.
func TestReserveLeavesRoomForNominatedPods(t *testing.T) {
	for _, tt := range []struct {
		strategy    config.GPUDeviceStrategy
		some, cases int
	}{
		{config.GPUDeviceFragmentationGradient, 300, 13808},
		{config.GPUDeviceLeastAllocated, 100, 2675},
		{config.GPUDeviceBestFit, 100, 1000},
		{config.GPUDeviceMostAllocated, 100, 1000},
	} {
		t.Run(string(tt.strategy), func(t *testing.T) {
			want := tt.some
			if os.Getenv("BERTH_LONG") == "1" {
				want = tt.cases
			}
			c := nominatedCases{process: newProcess(t, 24, 1)}
			c.start(gpuArgs(withStrategy(tt.strategy)))
			cases, evictions := 0, 0
			for cases < want {
				if tried, room := c.try(); tried {
					cases++
					if !room {
						evictions++
					}
				}
			}
			if evictions > 0 {
				t.Errorf("in %d of %d cases the nominated pod would have to evict once more", evictions, cases)
			}
		})
	}
}

// nominatedCases are random cases of a process.
type nominatedCases struct {
	process
	count int
}

// share is a random pod with a share of least to most twentieths of a device.
func (c *nominatedCases) share(name string, least, most int) *corev1.Pod {
	milli := 50 * (least + c.rand.IntN(most-least+1))
	pod := sharePod(fmt.Sprintf("%s-%d", name, c.count), milli)
	pod.UID = "uid-" + pod.UID
	return pod
}

// try is one case. It does not count as tried where Filter finds no room for both pods.
func (c *nominatedCases) try() (tried, room bool) {
	c.t.Helper()
	c.count++
	ctx := c.t.Context()
	devices := 1 + c.rand.IntN(4)
	node := gpuNode(fmt.Sprintf("n%d", c.count), devices)
	c.live.AddNode(c.logger, node)
	used := make([]int, devices)
	pods := []*corev1.Pod{}
	for i := range devices + c.rand.IntN(3*devices) {
		d, milli := c.rand.IntN(devices), 50*(1+c.rand.IntN(18))
		if used[d]+milli > device.MilliPerDevice {
			continue
		}
		used[d] += milli
		pods = append(pods, boundPod(fmt.Sprintf("bound-%d-%d", c.count, i), milli, node.Name, strconv.Itoa(d)))
	}
	for _, pod := range pods {
		c.must(c.store().Add(pod))
		c.must(c.live.AddPod(c.logger, pod))
	}
	high, low := int32(10), int32(c.rand.IntN(2)*10)
	waiting, pod := c.share("waiting", 6, 20), c.share("pod", 1, 8)
	waiting.Spec.Priority, pod.Spec.Priority = &high, &low
	waitingInfo, err := framework.NewPodInfo(waiting)
	c.must(err)
	c.must(c.store().Add(waiting))
	c.must(c.store().Add(pod))
	defer func() {
		for _, gone := range pods {
			c.must(c.live.RemovePod(c.logger, gone))
		}
		for _, gone := range slices.Concat(pods, []*corev1.Pod{waiting, pod}) {
			c.must(c.store().Delete(gone))
		}
		c.must(c.live.RemoveNode(c.logger, node))
		c.must(c.live.nodes.Delete(node))
		c.pl.allocations.removeNode(node.Name)
	}()

	fits := func(pod *corev1.Pod, beside ...fwk.PodInfo) (*framework.CycleState, bool) {
		c.must(c.live.UpdateSnapshot(klog.Logger{}, c.live.snapshot))
		c.profile.SetPodNominator(&nominated{pods: beside})
		state := framework.NewCycleState()
		if _, status, _ := c.profile.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
			return nil, false
		}
		return state, c.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, nodeInfo(c.t, c.profile, node.Name)).IsSuccess()
	}
	if _, ok := fits(waiting); !ok {
		return false, false
	}
	state, ok := fits(pod, waitingInfo)
	if !ok {
		return false, false
	}
	assumed := runningOn(pod, node.Name)
	c.must(c.live.AssumePod(c.logger, assumed))
	if status := c.profile.RunReservePluginsReserve(ctx, state, assumed, node.Name); !status.IsSuccess() {
		c.t.Fatalf("Filter let the pod through and Reserve did not: %v", status)
	}
	_, room = fits(waiting)
	c.profile.RunReservePluginsUnreserve(ctx, state, assumed, node.Name)
	c.must(c.live.ForgetPod(c.logger, assumed))
	return true, room
}

// TestReserveFallsBack gives a pod devices where the nominated pods have no room beside it, as
// when Filter ran before they were nominated, and to a pod of higher priority as if there
// were none.
func TestReserveFallsBack(t *testing.T) {
	for _, priority := range []int32{0, 20} {
		c := nominatedCases{process: newProcess(t, 24, 2)}
		c.start(gpuArgs())
		c.live.AddNode(c.logger, gpuNode("n", 1))
		c.must(c.live.UpdateSnapshot(klog.Logger{}, c.live.snapshot))
		high := int32(10)
		waiting, pod := sharePod("waiting", 800), sharePod("pod", 500)
		waiting.Spec.Priority, pod.Spec.Priority = &high, &priority
		info, err := framework.NewPodInfo(waiting)
		c.must(err)
		c.profile.SetPodNominator(&nominated{pods: []fwk.PodInfo{info}})
		if status := reserveOn(t, c.profile, pod, "n"); !status.IsSuccess() {
			t.Errorf("priority %d: %v", priority, status)
		}
	}
}
