// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/pkg/device"
)

// deviceAccount is what pods use of the devices of a node.
type deviceAccount struct {
	node *device.Node
	// usage is of the devices, if they are counted.
	usage   device.Usage
	counted bool
	cpuFree int64
}

// deviceSums are amounts over all nodes, in thousandths of a device.
type deviceSums struct{ capacity, allocated, held, idle, fragmented float64 }

// devices adds what pods hold of devices and what is left of them, if there are any.
// Whether the pods can have them is the oracle's to say.
func (e *finalState) devices(metrics map[string]float64, used map[string]corev1.ResourceList) error {
	keys := device.DefaultNodeKeys()
	accounts := map[string]*deviceAccount{}
	var sums deviceSums
	for name, node := range e.nodes {
		a := &deviceAccount{node: device.ParseNode(node, &keys)}
		if a.node.Devices == 0 {
			continue
		}
		a.usage, a.counted = a.node.Usage()
		a.cpuFree = cpuMilli(node.Status.Allocatable) - cpuMilli(used[name])
		accounts[name] = a
		sums.capacity += float64(a.node.Devices * device.MilliPerDevice)
	}
	if sums.capacity == 0 {
		return nil
	}
	var errs []error
	for _, pod := range e.pods {
		a := accounts[pod.Spec.NodeName]
		if a == nil {
			continue // the oracle has said so
		}
		held := keys.HeldOn(a.node, pod)
		if held.Unknown != nil {
			errs = append(errs, fmt.Errorf("pod %s on node %s: %w", pod.Name, pod.Spec.NodeName, held.Unknown))
			continue
		}
		a.take(&held, e.plan.Group(pod.Name), &sums)
	}
	for _, a := range accounts {
		a.addIdle(e.mix, &sums)
	}
	if err := wrongPlacement(errs); err != nil {
		return err
	}
	metrics[report.GPUAllocated] = 100 * sums.allocated / sums.capacity
	metrics[report.GPUHeld] = 100 * sums.held / sums.capacity
	if e.mix != nil && sums.idle > 0 {
		metrics[report.GPUFragmented] = 100 * sums.fragmented / sums.idle
	}
	return nil
}

// take books what a pod has.
func (a *deviceAccount) take(held *device.Held, group *workload.Group, sums *deviceSums) {
	used := float64(held.Used.Milli())
	sums.held += used + float64(held.Whole*device.MilliPerDevice)
	sums.allocated += used
	if held.Whole > 0 {
		sums.allocated += a.asked(group, held.Whole)
	}
	a.usage.Add(&held.Used)
	a.usage.AddPluginAllocated(held.Whole)
}

// asked is what the workload asks for, in thousandths, where a pod was given whole
// devices.
func (a *deviceAccount) asked(group *workload.Group, devices int64) float64 {
	switch {
	case group == nil:
		return float64(devices * device.MilliPerDevice)
	case group.MemoryMiB > 0 && a.node.MemoryMiB > 0:
		return float64(device.MilliPerDevice*group.MemoryMiB) / float64(a.node.MemoryMiB)
	}
	return float64(int64(group.Devices) * group.Milli)
}

// addIdle adds what is left, if it is counted.
func (a *deviceAccount) addIdle(mix *device.Workload, sums *deviceSums) {
	if !a.counted {
		return
	}
	sums.idle += float64(a.usage.IdleMilli())
	if mix != nil {
		causes := mix.For(a.node).Fragmentation(&a.usage, a.cpuFree)
		sums.fragmented += causes.Total()
	}
}
