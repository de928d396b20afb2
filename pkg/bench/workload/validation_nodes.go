// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// maxNodeName is how long the name of a node may be: in the cluster the run's prefix
// stands before it (names.BenchPrefix, eight digits and a dash), and the whole is the
// value of a label.
const maxNodeName = validation.LabelValueMaxLength - len(names.BenchPrefix) - len("01234567-")

func validateNodes(path *field.Path, groups []NodeGroup) field.ErrorList {
	if len(groups) == 0 {
		return field.ErrorList{field.Required(path, "describe at least one group of nodes")}
	}
	var errs field.ErrorList
	total := 0
	called := map[string]int{} // groups may share a prefix
	for i := range groups {
		group := &groups[i]
		errs = append(errs, validateNodeGroup(path.Index(i), group)...)
		count := min(max(0, group.Count), maxNodes+1)
		total += count
		called[group.NamePrefix] += count
		if last := nodeName(group.NamePrefix, called[group.NamePrefix]-1); len(last) > maxNodeName && len(validation.IsDNS1123Label(group.NamePrefix)) == 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("namePrefix"), group.NamePrefix, fmt.Sprintf("the last node would be called %s, with more than %d characters: choose a shorter prefix", last, maxNodeName)))
		}
	}
	if total > maxNodes {
		errs = append(errs, field.Invalid(path, total, fmt.Sprintf("must be at most %d nodes in all", maxNodes)))
	}
	return errs
}

func validateNodeGroup(path *field.Path, group *NodeGroup) field.ErrorList {
	errs := validateName(path.Child("namePrefix"), group.NamePrefix, validation.IsDNS1123Label)
	errs = append(errs, validateRange(path.Child("count"), group.Count, 1, maxNodes)...)
	for i, zone := range group.Zones {
		errs = append(errs, validateName(path.Child("zones").Index(i), zone, validation.IsValidLabelValue)...)
	}
	errs = append(errs, validateCapacity(path.Child("cpu"), group.CPU)...)
	errs = append(errs, validateCapacity(path.Child("memory"), group.Memory)...)
	errs = append(errs, validateRange(path.Child("pods"), *group.Pods, 1, math.MaxInt32)...)
	errs = append(errs, validateLabels(path.Child("labels"), group.Labels, isNodeLabel)...)
	if group.GPU != nil {
		errs = append(errs, validateNodeGPU(path.Child("gpu"), group.GPU)...)
	}
	return errs
}

func validateNodeGPU(path *field.Path, gpu *NodeGPU) field.ErrorList {
	errs := validateName(path.Child("model"), gpu.Model, validation.IsValidLabelValue)
	errs = append(errs, validateRange(path.Child("count"), gpu.Count, 1, device.MaxDevices)...)
	errs = append(errs, validateRange(path.Child("memoryMiB"), gpu.MemoryMiB, 1, device.MaxMemoryMiB)...)
	if len(errs) > 0 {
		return errs
	}
	// A model may tell of devices that cannot be shared.
	node := writeNode(&NodeGroup{GPU: gpu, Pods: new(int64)}, "any", "", Shares)
	keys := device.DefaultNodeKeys()
	if parsed := device.ParseNode(&node, &keys); parsed.Kind != device.NodeShared {
		errs = append(errs, field.Invalid(path.Child("model"), gpu.Model, "the devices of such a node cannot be shared: "+parsed.Invalid.Error()))
	}
	return errs
}

// isNodeLabel reports whether a label of nodes is set by the benchmark itself.
func isNodeLabel(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelOSStable, corev1.LabelArchStable, betaOSLabel, betaArchLabel:
		return true
	}
	return isDeviceLabel(key)
}
