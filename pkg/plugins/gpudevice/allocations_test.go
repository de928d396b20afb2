// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// busyCluster returns nodes with 8 devices each, nearly half full of shares, and
// as many labels as those of a cloud provider have.
func busyCluster(count int) schedtest.Options {
	random := rand.New(rand.NewPCG(1, 1))
	var opts schedtest.Options
	for i := range count {
		name := fmt.Sprintf("node-%d", i)
		node := gpuNode(name, 8)
		for j := range 20 {
			node.Labels[fmt.Sprintf("provider.example.com/property-%d", j)] = "value"
		}
		opts.Nodes = append(opts.Nodes, node)
		for d := range 8 {
			// Three shares of 100 to 300 on three of four devices.
			shares := 3
			if random.IntN(4) == 0 {
				shares = 0
			}
			for s := range shares {
				pod := boundPod(fmt.Sprintf("%s-%d-%d", name, d, s), 100+100*random.IntN(3), name, strconv.Itoa(d))
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
				opts.Pods = append(opts.Pods, pod)
			}
		}
	}
	return opts
}

// twentyShapes is an expected workload like that of the openb trace: shares, whole
// devices, some of several.
func twentyShapes() []config.GPUDeviceWorkloadClass {
	var classes []config.GPUDeviceWorkloadClass
	for i := range int64(20) {
		class := config.GPUDeviceWorkloadClass{Weight: 1 + i*i%17, CPU: *resource.NewQuantity(1+i%12, resource.DecimalSI)}
		switch {
		case i < 12:
			class.GPUMilli = 50 + 75*i
		case i < 17:
			class.GPUMilli = 1000
		default:
			class.GPUMilli = 1000 << (i - 16)
		}
		classes = append(classes, class)
	}
	return classes
}

func realisticArgs() *config.GPUDeviceArgs {
	return gpuArgs(func(args *config.GPUDeviceArgs) { args.ExpectedWorkload = twentyShapes() })
}

// A node that passes and has not changed costs no memory, neither in Filter nor in
// Score: they run for every node of every pod.
func TestNoAllocationForANodeThatPasses(t *testing.T) {
	profile, pl := startProfile(t, realisticArgs(), busyCluster(1))
	pod, nodes := sharePod("p", 100), profile.Nodes(t)
	state, ctx := profile.NewCycle(t.Context(), t, pod), t.Context()
	succeed(t, pl.PreScore(ctx, state, pod, nodes))
	t.Run("Filter", func(t *testing.T) {
		var status *fwk.Status
		allocations := testing.AllocsPerRun(1000, func() { status = pl.Filter(ctx, state, pod, nodes[0]) })
		if !status.IsSuccess() {
			t.Fatalf("the node is refused: %v", status)
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
	t.Run("Score", func(t *testing.T) {
		var status *fwk.Status
		allocations := testing.AllocsPerRun(1000, func() { _, status = pl.Score(ctx, state, pod, nodes[0]) })
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
	t.Run("Score, computed", func(t *testing.T) {
		v := pl.view(nodes[0], false)
		allocations := testing.AllocsPerRun(1000, func() {
			for i := range v.scores {
				v.scores[i].Store(0)
			}
			_, _ = pl.Score(ctx, state, pod, nodes[0])
		})
		if allocations != 0 {
			t.Errorf("want no allocation, got %g", allocations)
		}
	})
}

// No reason is built from what a node says: the event of a pod counts nodes by
// reason.
func TestReasonsAreConstant(t *testing.T) {
	opts := busyCluster(30)
	profile, _ := startProfile(t, realisticArgs(), opts)
	verdicts, status := profile.Filter(t.Context(), t, sharePod("p", 8000))
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	reasons := map[string]int{}
	for node, reason := range verdicts {
		if reason != "" {
			reasons[reason]++
		}
		if strings.Contains(reason, node) {
			t.Errorf("reason %q names the node", reason)
		}
	}
	if len(reasons) != 1 || reasons[reasonTexts[device.NoShare]] < 20 {
		t.Errorf("want one reason for nearly all, got %v", reasons)
	}
}
