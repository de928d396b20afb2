// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// TestAgreesWithPlugin compares, on random clusters, what is told by model with what
// the plugin's metrics tell of the same objects.
func TestAgreesWithPlugin(t *testing.T) {
	keys := device.DefaultNodeKeys()
	args := &config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels:      config.GPUDeviceNodeLabels{Count: keys.Count, Memory: keys.Memory, Product: keys.Product, Replicas: keys.Replicas, MIGPrefix: keys.MIGPrefix},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceBestFit},
		NonGPUPods:      config.NonGPUPodsAllow,
	}
	for seed := range uint64(20) {
		nodes, pods := randomCluster(rand.New(rand.NewPCG(seed, 1)))
		name := fmt.Sprintf("%s-%d", t.Name(), seed)
		profile, err := schedtest.NewProfile(t.Context(), t, gpudevice.Name, gpudevice.New, args, schedtest.Options{Name: name, Nodes: nodes, Pods: pods})
		if err != nil {
			t.Fatal(err)
		}
		profile.Start(t.Context(), t)
		want := map[string]float64{}
		for _, model := range New(Objects{Nodes: nodes, Pods: pods}, &keys).Models {
			if model.Devices > 0 {
				want["capacity_milli "+model.Name] = float64(model.CapacityMilli)
				want["allocated_milli "+model.Name] = float64(model.AllocatedMilli)
			}
			if model.CordonedDevices > 0 {
				want["cordoned_capacity_milli "+model.Name] = float64(model.CordonedDevices * device.MilliPerDevice)
				want["cordoned_allocated_milli "+model.Name] = float64(model.CordonedAllocatedMilli)
			}
		}
		// The plugin's handlers run some time after the informers have the objects.
		var diff string
		err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) {
			diff = cmp.Diff(want, served(t, name))
			return diff == "", nil
		})
		if err != nil {
			t.Errorf("seed %d: what is told by model, and by the metrics (-told,+metrics):\n%s", seed, diff)
		}
	}
}

// served returns what the metrics of a profile say of models.
func served(t *testing.T, profile string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		name := strings.TrimPrefix(family.GetName(), "berth_gpudevice_")
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if model, ok := labels["model"]; ok && labels["profile"] == profile {
				got[name+" "+model] = metric.GetGauge().GetValue()
			}
		}
	}
	return got
}

// randomCluster draws nodes of all kinds and pods on them, with records that are good or
// not.
func randomCluster(r *rand.Rand) (nodes []*corev1.Node, pods []*corev1.Pod) {
	for i := range 12 {
		name := fmt.Sprintf("n%d", i)
		devices := 1 + r.IntN(4)
		n := node(name, strconv.Itoa(devices), labeled("nvidia.com/gpu.product", []string{"T4", "A100"}[r.IntN(2)]))
		switch r.IntN(8) {
		case 0:
			plugin(strconv.Itoa(devices))(n)
		case 1:
			labeled(names.GPUSharingLabel, "yes")(n)
		case 2:
			annotated(names.GPUCordonedAnnotation, strconv.Itoa(r.IntN(devices)))(n)
		case 3:
			n.Labels["nvidia.com/gpu.memory"] = "5000" // less than was recorded
		default:
		}
		nodes = append(nodes, n)
		for j := range r.IntN(6) {
			pod := sharePod(fmt.Sprintf("ns/p%d-%d", i, j), name, strconv.Itoa(100*(1+r.IntN(9))), strconv.Itoa(r.IntN(devices+1)), "")
			switch r.IntN(6) {
			case 0:
				delete(pod.Annotations, names.GPUAssignedAnnotation)
			case 1:
				terminated(pod)
			default:
			}
			pods = append(pods, pod)
		}
	}
	return nodes, pods
}
