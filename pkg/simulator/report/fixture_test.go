// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// The nodes of most tests: n0 with two devices and n1 with one that another model
// is. The pods are those of a trace.
func testNodes() []*corev1.Node {
	rows := []trace.Node{
		{Name: "n0", CPUMilli: 4000, MemoryMiB: 8192, Devices: 2, Model: "T4"},
		{Name: "n1", CPUMilli: 2000, MemoryMiB: 8192, Devices: 1, Model: "A10"},
	}
	var nodes []*corev1.Node
	for i := range rows {
		nodes = append(nodes, rows[i].Object())
	}
	return nodes
}

var keys = device.DefaultNodeKeys()

// wholeDevice is a workload of pods with one CPU and one device.
func wholeDevice(t *testing.T) *device.Workload {
	t.Helper()
	workload, err := device.NewWorkload([]device.Class{{Shape: device.Shape{CPUMilli: 1000, Devices: 1, Milli: 1000}, Weight: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return workload
}

// bound returns the pod as it is after its Binding, with the devices.
func bound(t *testing.T, row trace.Pod, node *corev1.Node, devices ...int) *corev1.Pod {
	t.Helper()
	pod := row.Object("berth-scheduler")
	pod.Spec.NodeName = node.Name
	request, err := device.ParsePod(pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	if request.Kind == device.RequestNone {
		return pod
	}
	parsed := device.ParseNode(node, &keys)
	var assignment device.Assignment
	assignment.Devices[0] = device.SetOf(devices...)
	assignment.Shares[0], _ = request.Containers[0].On(parsed.MemoryMiB)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, assignment.Annotations(request, parsed))
	return pod
}

// testEvents are four arrivals of which each has another effect.
func testEvents(t *testing.T, nodes []*corev1.Node) []Event {
	t.Helper()
	a := bound(t, trace.Pod{Name: "a", CPUMilli: 1000, MemoryMiB: 1024, Devices: 1, Milli: 400}, nodes[0], 0)
	b := bound(t, trace.Pod{Name: "b", CPUMilli: 2000, MemoryMiB: 2048}, nodes[1])
	c := (&trace.Pod{Name: "c", CPUMilli: 1000, Devices: 2, Milli: 1000, Models: "T4"}).Object("berth-scheduler")
	d := bound(t, trace.Pod{Name: "d", CPUMilli: 1000, MemoryMiB: 1024, Devices: 1, Milli: 1000}, nodes[0], 1)
	return []Event{
		{Pod: a, Node: "n0"},
		{Pod: b, Node: "n1"},
		{Pod: c, Message: "0/2 nodes are available: 1 node(s) had no room on their devices, 1 node(s) had another model."},
		{Pod: d, Node: "n0"},
	}
}

// record returns a recorder that has seen the events.
func record(t *testing.T, nodes []*corev1.Node, workload *device.Workload, events []Event) *Recorder {
	t.Helper()
	r := NewRecorder(nodes, nil, &keys, workload)
	for _, event := range events {
		if err := r.Record(event); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
