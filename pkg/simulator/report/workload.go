// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
)

// typicalPercent is the part of all pods that the workload of [Typical] covers.
const typicalPercent = 95

// Typical returns the workload against which fragmentation is measured: the
// "typical pods" of the fragmentation paper, which are the commonest shapes of the
// pods that together make up 95 % of them, pods without devices included. It is
// nil if no pod asks for a device.
func Typical(pods iter.Seq[*corev1.Pod], keys *device.NodeKeys) (*device.Workload, error) {
	// By their text, because Models are not comparable.
	counted := map[string]*device.Class{}
	devices := false
	for pod := range pods {
		d := demandOf(pod, keys)
		shape := device.ShapeOf(device.PodRequest{CPUMilli: d.cpuMilli, Request: d.request})
		devices = devices || shape.Devices > 0
		key := fmt.Sprint(shape.CPUMilli, shape.Devices, shape.Milli, shape.MemoryMiB, shape.MinMemoryMiB, shape.Models)
		if counted[key] == nil {
			counted[key] = &device.Class{Shape: shape}
		}
		counted[key].Weight++
	}
	if !devices {
		return nil, nil
	}
	classes := make([]device.Class, 0, len(counted))
	for _, class := range counted {
		classes = append(classes, *class)
	}
	// NewWorkload puts them in its own order, which is total.
	workload, err := device.NewWorkload(classes)
	if err != nil {
		return nil, fmt.Errorf("counting the shapes of pods: %w", err)
	}
	return workload.Typical(typicalPercent), nil
}
