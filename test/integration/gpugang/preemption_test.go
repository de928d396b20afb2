// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestPreemption fills two nodes of two devices with shares, and has a pod of
// higher priority evict some. Whoever chose, the victims must have been on one
// device, and none of them can have been spared.
func TestPreemption(t *testing.T) {
	for _, tt := range []struct {
		name  string
		milli string
	}{
		{"a share", "600"},
		{"a whole device", "1000"},
	} {
		t.Run(tt.name, func(t *testing.T) { testPreemption(t, tt.milli) })
	}
}

// small is the share of the pods that fill the devices up, in thousandths.
const small = 200

func testPreemption(t *testing.T, milli string) {
	t.Helper()
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{gpuNode("gpu-a", 2), gpuNode("gpu-b", 2)}})
	c.ApplyManifests(t, "manifests/base")
	c.Apply(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
`)
	c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})

	// Pods of all sizes, then small ones until none fits: no device has room for
	// the urgent pod, wherever the strategy put them.
	for i, share := range []string{"700", "500", "400", "300", "300", "250"} {
		pod := framework.SharePod(fmt.Sprintf("low-%d", i), share)
		create(t, c, pod)
		c.WaitForPodScheduled(t, pod.Namespace, pod.Name)
	}
	for i := 0; ; i++ {
		pod := framework.SharePod(fmt.Sprintf("small-%d", i), strconv.Itoa(small))
		create(t, c, pod)
		scheduled := false
		c.WaitForPod(t, pod.Namespace, pod.Name, "to be tried", func(pod *corev1.Pod) bool {
			scheduled = pod.Spec.NodeName != ""
			return scheduled || framework.PodScheduledCondition(pod) != nil
		})
		if !scheduled {
			remove(t, c, pod)
			break
		}
	}
	before := held(t, c)
	for name, uses := range before {
		if free := device.MilliPerDevice - sum(uses); free >= small {
			t.Fatalf("device %s: %d of %d milli are free though a pod with %d found no room", name, free, device.MilliPerDevice, small)
		}
	}

	urgent := framework.SharePod("urgent", milli)
	urgent.Spec.PriorityClassName = "urgent"
	create(t, c, urgent)
	c.WaitForPodScheduled(t, urgent.Namespace, urgent.Name)
	after := held(t, c)

	var got []string
	for name, uses := range after {
		if slices.ContainsFunc(uses, func(u use) bool { return u.pod == urgent.Name }) {
			got = append(got, name)
		}
		if total := sum(uses); total > device.MilliPerDevice {
			t.Errorf("device %s is given away %d times a thousandth: %v", name, total, uses)
		}
	}
	if len(got) != 1 {
		t.Fatalf("the urgent pod holds %v", got)
	}
	left := map[string]bool{}
	for _, uses := range after {
		for _, u := range uses {
			left[u.pod] = true
		}
	}
	asked := urgent.Spec.Containers[0].Resources.Limits[names.GPUMilliResource]
	for _, name := range slices.Sorted(maps.Keys(before)) {
		for _, victim := range before[name] {
			switch {
			case left[victim.pod]:
			case name != got[0]:
				t.Errorf("pod %s was evicted from device %s, but the urgent pod took %s", victim.pod, name, got[0])
			case sum(after[name])+victim.milli <= device.MilliPerDevice:
				t.Errorf("pod %s could have stayed: device %s has %d milli free beside the %s that the urgent pod took",
					victim.pod, name, device.MilliPerDevice-sum(after[name]), asked.String())
			}
		}
	}
	t.Logf("device %s: before %v, after %v", got[0], before[got[0]], after[got[0]])
}

func sum(uses []use) int64 {
	var total int64
	for _, u := range uses {
		total += u.milli
	}
	return total
}
