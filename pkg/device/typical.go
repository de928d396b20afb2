// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// measuredPercent is the part of all pods that the workload of [TypicalWorkload]
// covers.
const measuredPercent = 95

// TypicalWorkload returns the workload against which fragmentation is measured:
// the "typical pods" of the fragmentation paper, which are the commonest shapes of
// the pods that together make up 95 % of them, pods without devices included. A pod
// whose request can never be served counts as one without devices. It is nil if no
// pod asks for a device.
func TypicalWorkload(pods iter.Seq[*corev1.Pod], keys *NodeKeys) (*Workload, error) {
	counted := map[Shape]int64{}
	devices := false
	for pod := range pods {
		request, err := ParsePod(pod, keys)
		if err != nil {
			request = &Request{}
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		shape := ShapeOf(PodRequest{CPUMilli: requests.Cpu().MilliValue(), Request: request})
		devices = devices || shape.Devices > 0
		counted[shape]++
	}
	if !devices {
		return nil, nil
	}
	classes := make([]Class, 0, len(counted))
	for shape, weight := range counted {
		classes = append(classes, Class{Shape: shape, Weight: weight})
	}
	// NewWorkload puts them in its own order, which is total.
	workload, err := NewWorkload(classes)
	if err != nil {
		return nil, fmt.Errorf("counting the shapes of pods: %w", err)
	}
	return workload.Typical(measuredPercent), nil
}
