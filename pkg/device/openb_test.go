// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// openbDeviceMemory is given to every device, since the trace knows none. Shares
// derive their memory from their compute, so it must not matter; the number is no
// multiple of 1000 to show that rounding does not either.
const openbDeviceMemory = 15109

// openbScale is the paper's: the largest CPU and the most devices of a node.
var openbScale = device.MaxNode{CPUMilli: 128000, GPUMilli: 8 * device.MilliPerDevice}

// openbPod are the pods of the trace that are alike but for their names.
type openbPod struct {
	demand device.PodRequest
	memory int64
	milli  int64 // of all its devices
	class  int
}

// openb is a list of pods and the cluster in the form of Alibaba's trace (2023), with
// the models in lower case.
type openb struct {
	*trace.Trace
	// load is what the pods are brought to ask for, in parts of all devices; 0 takes
	// the list as it is.
	load     float64
	classes  map[trace.Pod]*openbPod
	workload *device.Workload // the typical pods of the paper
	milli    int64            // of all devices
}

// supply returns what the cluster has, by model.
func (tr *openb) supply() []device.Supply {
	devices := map[string]int64{}
	for _, n := range tr.Nodes {
		devices[n.Model] += int64(n.Devices)
	}
	var supply []device.Supply
	for _, model := range slices.Sorted(maps.Keys(devices)) {
		supply = append(supply, device.Supply{Model: model, MemoryMiB: openbDeviceMemory, Devices: devices[model]})
	}
	return supply
}

// loadOpenb reads the cluster and one pod list, and skips the test where the
// trace is not at hand.
func loadOpenb(tb testing.TB, podList string) *openb {
	tb.Helper()
	folder := datasets.Path("openb")
	if _, err := os.Stat(folder); err != nil {
		tb.Skipf("the openb trace is not at hand: %v", err)
	}
	return loadTrace(tb, 1.3, filepath.Join(folder, "openb_node_list_gpu_node.csv"), filepath.Join(folder, podList))
}

// loadTrace reads nodes and pods.
func loadTrace(tb testing.TB, load float64, files ...string) *openb {
	tb.Helper()
	tr := &openb{Trace: &trace.Trace{}, load: load, classes: map[trace.Pod]*openbPod{}}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		if err := tr.Read(name, content); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range tr.Nodes {
		tr.Nodes[i].Model = strings.ToLower(tr.Nodes[i].Model)
	}
	tr.milli = tr.DeviceMilli()
	tr.readPods(tb)
	return tr
}

// classOf is a row without what does not tell pods apart.
func classOf(row trace.Pod) trace.Pod {
	row.Name = ""
	return row
}

// readPods takes the classes of pods from the list, and the workload to be expected.
func (tr *openb) readPods(tb testing.TB) {
	tb.Helper()
	slices.SortFunc(tr.Pods, func(a, b trace.Pod) int { return strings.Compare(a.Name, b.Name) })
	weights := map[trace.Pod]int{}
	var expected []device.Class
	for i := range tr.Pods {
		row := classOf(tr.Pods[i])
		pod := tr.classes[row]
		if pod == nil {
			request, err := device.ParsePod(row.Object(""), nil)
			if err != nil {
				tb.Fatal(err)
			}
			pod = &openbPod{
				demand: device.PodRequest{CPUMilli: row.CPUMilli, Request: request},
				memory: row.MemoryMiB, milli: row.DeviceMilli(), class: len(tr.classes),
			}
			tr.classes[row] = pod
		}
		row.MemoryMiB = 0 // not part of the expected workload
		at, ok := weights[row]
		if !ok {
			at = len(expected)
			weights[row] = at
			expected = append(expected, device.Class{Shape: device.ShapeOf(pod.demand)})
		}
		expected[at].Weight++
	}
	workload, err := device.NewWorkload(expected)
	if err != nil {
		tb.Fatal(err)
	}
	tr.workload = workload.Typical(95)
}

// arrivals returns the pods in the paper's order.
func (tr *openb) arrivals(seed int64) []*openbPod {
	rows, err := trace.Arrivals(tr.Pods, tr.milli, tr.load, seed)
	if err != nil {
		panic(err) // the lists and the cluster have devices
	}
	order := make([]*openbPod, len(rows))
	for i := range rows {
		order[i] = tr.classes[classOf(rows[i])]
	}
	return order
}
