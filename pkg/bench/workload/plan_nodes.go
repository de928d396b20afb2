// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// These two the controller-manager copies from their successors if they are
	// missing, with a write a node.
	betaOSLabel   = "beta.kubernetes.io/os"
	betaArchLabel = "beta.kubernetes.io/arch"
)

// pluginResource is what a device plugin advertises whole devices as.
func pluginResource() corev1.ResourceName { return device.DefaultNodeKeys().PluginResources[0] }

// writeNodes writes out all groups, in their order.
func writeNodes(groups []NodeGroup, format RequestFormat) []corev1.Node {
	var nodes []corev1.Node
	next := map[string]int{} // groups may share a prefix
	for i := range groups {
		group := &groups[i]
		for n := range group.Count {
			zone := ""
			if len(group.Zones) > 0 {
				zone = group.Zones[n%len(group.Zones)]
			}
			name := nodeName(group.NamePrefix, next[group.NamePrefix])
			next[group.NamePrefix]++
			nodes = append(nodes, writeNode(group, name, zone, format))
		}
	}
	return nodes
}

// nodeName is the name of the node of that number, from 0, among those of a prefix.
func nodeName(prefix string, number int) string { return fmt.Sprintf("%s-%d", prefix, number) }

// writeNode writes out one node; zone may be empty.
func writeNode(group *NodeGroup, name, zone string, format RequestFormat) corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
		betaOSLabel:            "linux",
		betaArchLabel:          "amd64",
	}
	maps.Copy(labels, group.Labels)
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    group.CPU.DeepCopy(),
		corev1.ResourceMemory: group.Memory.DeepCopy(),
		corev1.ResourcePods:   *resource.NewQuantity(*group.Pods, resource.DecimalSI),
	}
	if gpu := group.GPU; gpu != nil {
		keys := device.DefaultNodeKeys()
		labels[keys.Count] = strconv.Itoa(gpu.Count)
		labels[keys.Memory] = strconv.FormatInt(gpu.MemoryMiB, 10)
		labels[keys.Product] = gpu.Model
		labels[keys.Replicas] = "1"
		if format == Shares {
			labels[names.GPUSharingLabel] = "true"
		} else {
			capacity[keys.PluginResources[0]] = *resource.NewQuantity(int64(gpu.Count), resource.DecimalSI)
		}
	}
	return corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity.DeepCopy()},
	}
}

// isDeviceLabel reports whether a label of nodes describes their devices.
func isDeviceLabel(key string) bool {
	keys := device.DefaultNodeKeys()
	switch key {
	case keys.Count, keys.Memory, keys.Product, keys.Replicas, names.GPUSharingLabel:
		return true
	}
	return strings.HasPrefix(key, keys.MIGPrefix)
}

// matchingModels returns the models of the nodes that match, sorted, each once.
func matchingModels(groups []NodeGroup, models device.Models) []string {
	var found []string
	for i := range groups {
		if gpu := groups[i].GPU; gpu != nil && models.Match(strings.ToLower(gpu.Model)) {
			found = append(found, gpu.Model)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
