// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/output"
)

// Waiting is a pod that asks for devices and has no node. It holds nothing: what it is
// counted for on a node for which it is nominated, its scheduler alone knows.
type Waiting struct {
	// Namespace and Name are the pod's.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// SchedulerName is the pod's.
	SchedulerName string `json:"schedulerName"`
	// How says by what it asks for devices.
	How How `json:"how"`
	// Asks is what it asks for of devices that are shared, of all of them together: as its
	// limits have it, so that one of the two may be 0.
	Asks Share `json:"asks"`
	// WholeDevices is how many it asks of a device plugin.
	WholeDevices int64 `json:"wholeDevices,omitempty"`
	// NominatedNode is the node on which its scheduler makes room for it, by evicting
	// others; empty without one.
	NominatedNode string `json:"nominatedNode,omitempty"`
	// Gated is whether a scheduling gate keeps it from being scheduled.
	Gated bool `json:"gated,omitempty"`
}

// addWaiting adds the pods that ask for devices and have no node.
func (c *computation) addWaiting(pods []*corev1.Pod) {
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || podutil.IsPodTerminal(pod) {
			continue
		}
		shares, plugin := device.HasShareRequest(pod), c.keys.HasDevicePluginRequest(pod)
		if !shares && !plugin && !c.claims.MayHaveDevices(pod, c.source) {
			continue
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		milli, memory := requests[names.GPUMilliResource], requests[names.GPUMemoryResource]
		w := Waiting{
			Namespace: pod.Namespace, Name: pod.Name, SchedulerName: pod.Spec.SchedulerName, How: ByClaim,
			Asks:          Share{Milli: milli.Value(), MemoryMiB: memory.Value() >> 20},
			NominatedNode: pod.Status.NominatedNodeName, Gated: len(pod.Spec.SchedulingGates) > 0,
		}
		switch {
		case shares:
			w.How = ByShares
		case plugin:
			w.How = ByDevicePlugin
		}
		for _, name := range c.keys.PluginResources {
			quantity := requests[name]
			w.WholeDevices += quantity.Value()
		}
		c.report.Waiting = append(c.report.Waiting, w)
	}
	slices.SortFunc(c.report.Waiting, func(a, b Waiting) int {
		return comparePods(Pod{Namespace: a.Namespace, Name: a.Name}, Pod{Namespace: b.Namespace, Name: b.Name})
	})
}

// asks writes what the pod asks for.
func (w *Waiting) asks() string {
	switch {
	case w.WholeDevices > 0:
		return output.Count(int(w.WholeDevices), "device")
	case w.How == ByClaim:
		return "by a ResourceClaim"
	case w.Asks.MemoryMiB == 0:
		return milli(w.Asks.Milli)
	case w.Asks.Milli == 0:
		return memory(w.Asks.MemoryMiB)
	}
	return share(w.Asks)
}

// status writes why the pod has no device.
func (w *Waiting) status() string {
	text := "waits for "
	if w.Gated {
		text = "gated, asks for "
	}
	text += w.asks()
	if w.NominatedNode != "" {
		text += ", nominated for " + w.NominatedNode
	}
	return text
}

// nominated are the pods for which room is made on each node.
func (r *Report) nominated() map[string][]string {
	byNode := map[string][]string{}
	for i := range r.Waiting {
		if w := &r.Waiting[i]; w.NominatedNode != "" {
			byNode[w.NominatedNode] = append(byNode[w.NominatedNode], w.Namespace+"/"+w.Name+" ("+w.asks()+")")
		}
	}
	return byNode
}
