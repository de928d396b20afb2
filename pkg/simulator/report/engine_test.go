// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"math"
	"os"
	"testing"

	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// TestBooksAgreeWithTheEngine fills a cluster and compares what the recorder has
// booked with what the scheduler's own cache says of the nodes.
func TestBooksAgreeWithTheEngine(t *testing.T) {
	const profile = "../../../config/berth-scheduler/gpu.yaml"
	content, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	config, err := engine.LoadConfiguration(profile, content)
	if err != nil {
		t.Fatal(err)
	}
	var objects cluster.Cluster
	for _, row := range []trace.Node{
		{Name: "n0", CPUMilli: 32000, MemoryMiB: 131072, Devices: 4, Model: "T4"},
		{Name: "n1", CPUMilli: 16000, MemoryMiB: 131072, Devices: 8, Model: "A10"},
		{Name: "n2", CPUMilli: 64000, MemoryMiB: 131072},
	} {
		if err := objects.Add(row.Object()); err != nil {
			t.Fatal(err)
		}
	}
	list := []trace.Pod{
		{Name: "share", CPUMilli: 1000, MemoryMiB: 512, Devices: 1, Milli: 370},
		{Name: "whole", CPUMilli: 3000, MemoryMiB: 1024, Devices: 1, Milli: 1000, Models: "T4"},
		{Name: "two", CPUMilli: 2000, MemoryMiB: 2048, Devices: 2, Milli: 1000},
		{Name: "cpu", CPUMilli: 7000, MemoryMiB: 100},
	}
	pods, err := trace.Arrivals(list, 12_000, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(t.Context(), engine.Options{Config: config, Seed: 1}, &objects)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	recorder := report.NewRecorder(objects.Nodes(), nil, engine.DeviceKeys(config, ""), nil)
	for i := range pods {
		result, err := e.Schedule(t.Context(), pods[i].Object("berth-scheduler"))
		if err != nil {
			t.Fatal(err)
		}
		if err := recorder.Record(report.Event{Pod: result.Pod, Node: result.Node, Message: result.Message}); err != nil {
			t.Fatal(err)
		}
	}
	run := recorder.Run(1)
	if run.Metrics["podsPlaced"] < 10 || run.Metrics["podsFailed"] == 0 {
		t.Fatalf("metrics %v: want a cluster that is full", run.Metrics)
	}

	var devices, free, cpu, cpuUsed, memory, memoryUsed int64
	for _, node := range objects.Nodes() {
		view, err := e.Node(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		nodeDevices, nodeFree := view.GPUMilli()
		devices, free = devices+nodeDevices, free+nodeFree
		cpu, cpuUsed = cpu+view.Allocatable.CPUMilli, cpuUsed+view.Requested.CPUMilli
		memory, memoryUsed = memory+view.Allocatable.MemoryBytes, memoryUsed+view.Requested.MemoryBytes
	}
	for key, want := range map[string]float64{
		"allocatedPercent": 100 * float64(devices-free) / float64(devices),
		"cpuPercent":       100 * float64(cpuUsed) / float64(cpu),
		"memoryPercent":    100 * float64(memoryUsed) / float64(memory),
	} {
		if got := run.Metrics[key]; math.Abs(got-want) > 1e-4 {
			t.Errorf("%s is %v, and %v by the engine", key, got, want)
		}
	}
}
