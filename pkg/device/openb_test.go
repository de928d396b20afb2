// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/csv"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/publicdata"
)

// openbFolder is where the openb trace of Alibaba (2023) is, if it is at hand.
var openbFolder = publicdata.Path("openb")

// openbDeviceMemory is given to every device, since the trace knows none. Shares
// derive their memory from their compute, so it must not matter; the number is no
// multiple of 1000 to show that rounding does not either.
const openbDeviceMemory = 15109

// openbScale is the paper's: the largest CPU and the most devices of a node.
var openbScale = device.Scale{CPUMilli: 128000, GPUMilli: 8 * device.MilliPerDevice}

// openbNode is a node of the trace.
type openbNode struct {
	model       string
	cpu, memory int64
	devices     int
}

// openbPod is a pod of the trace. Pods of one class are alike.
type openbPod struct {
	demand device.PodRequest
	memory int64
	milli  int64 // of all its devices
	class  int
}

// openb is a pod list and the cluster.
type openb struct {
	nodes    []openbNode
	pods     []openbPod // by name
	classes  int
	workload *device.Workload // the typical pods of the paper
	milli    int64            // of all devices
}

// supply returns what the cluster has, by model.
func (tr *openb) supply() []device.Supply {
	devices := map[string]int64{}
	for _, n := range tr.nodes {
		devices[n.model] += int64(n.devices)
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
	if _, err := os.Stat(openbFolder); err != nil {
		tb.Skipf("the openb trace is not at hand: %v", err)
	}
	tr := &openb{}
	for _, row := range readCSV(tb, "openb_node_list_gpu_node.csv") {
		n := openbNode{
			cpu:     number(tb, row["cpu_milli"]),
			memory:  number(tb, row["memory_mib"]),
			devices: int(number(tb, row["gpu"])),
			model:   strings.ToLower(row["model"]),
		}
		tr.nodes = append(tr.nodes, n)
		tr.milli += int64(n.devices) * device.MilliPerDevice
	}
	tr.loadPods(tb, podList)
	return tr
}

// loadPods reads the pods, and takes the workload to be expected from them.
func (tr *openb) loadPods(tb testing.TB, podList string) {
	tb.Helper()
	type key struct {
		cpu, memory, devices, milli int64
		models                      string
	}
	classOf := map[key]int{}
	weights := map[key]int{}
	var classes []device.Class
	rows := readCSV(tb, podList)
	slices.SortFunc(rows, func(a, b map[string]string) int { return strings.Compare(a["name"], b["name"]) })
	for _, row := range rows {
		k := key{
			cpu:     number(tb, row["cpu_milli"]),
			memory:  number(tb, row["memory_mib"]),
			devices: number(tb, row["num_gpu"]),
			milli:   number(tb, row["gpu_milli"]),
			models:  row["gpu_spec"],
		}
		pod := openbPod{
			demand: device.PodRequest{CPUMilli: k.cpu, Request: &device.Request{}},
			memory: k.memory,
			milli:  k.devices * k.milli,
		}
		if k.devices > 0 {
			pod.demand.Request.Kind = device.RequestShares
			pod.demand.Request.Containers = []device.ContainerRequest{{Container: "main", Devices: int(k.devices), Milli: k.milli}}
		}
		if k.models != "" {
			models, err := device.ParseModels(strings.ReplaceAll(k.models, "|", ","))
			if err != nil {
				tb.Fatalf("gpu_spec %q: %v", k.models, err)
			}
			pod.demand.Request.Models = models
		}
		if _, ok := classOf[k]; !ok {
			classOf[k] = len(classOf)
		}
		pod.class = classOf[k]
		tr.pods = append(tr.pods, pod)

		k.memory = 0 // not part of the expected workload
		if i, ok := weights[k]; ok {
			classes[i].Weight++
		} else {
			weights[k] = len(classes)
			classes = append(classes, device.Class{Shape: device.ShapeOf(pod.demand), Weight: 1})
		}
	}
	tr.classes = len(classOf)
	workload, err := device.NewWorkload(classes)
	if err != nil {
		tb.Fatal(err)
	}
	tr.workload = workload.Typical(95)
}

// arrivals returns the pods in the paper's order, up to 130 % of the cluster: a
// random permutation of the list, and then, if it asks for less, pods drawn from
// it once more, or else without some that are drawn.
func (tr *openb) arrivals(seed int64) []*openbPod {
	r := rand.New(rand.NewSource(seed))
	r.Int() // the paper's simulator prints one
	var sum int64
	var order []*openbPod
	for i := range tr.pods {
		order = append(order, &tr.pods[i])
		sum += tr.pods[i].milli
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	target := tr.milli * 13 / 10
	for sum > target {
		i := r.Intn(len(order))
		sum -= order[i].milli
		order = slices.Delete(order, i, i+1)
	}
	for {
		pod := &tr.pods[r.Intn(len(tr.pods))]
		if sum+pod.milli > target {
			return order
		}
		sum += pod.milli
		order = append(order, pod)
	}
}

// readCSV reads a file of the trace into a map per row.
func readCSV(tb testing.TB, name string) []map[string]string {
	tb.Helper()
	file, err := os.Open(filepath.Join(openbFolder, name))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		fields := map[string]string{}
		for i, column := range rows[0] {
			fields[column] = row[i]
		}
		out = append(out, fields)
	}
	return out
}

// number parses a number of the trace.
func number(tb testing.TB, s string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
