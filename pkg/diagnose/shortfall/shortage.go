// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package shortfall

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// Insufficient is what NodeResourcesFit says before the name of a resource.
	Insufficient = "Insufficient "
	// tooManyPods is what it says of a node that has all the pods that it takes.
	tooManyPods = "Too many pods"
)

// Shortage is a resource that a node has too little of. Amounts are in the unit in
// which the scheduler counts: thousandths of a CPU, else the resource's own.
type Shortage struct {
	Name corev1.ResourceName
	// Asked is what the pod asks for, Free what is left of the Total of the node; it may
	// be negative.
	Asked, Free, Total int64
}

// Shortages returns the resources that the node has too little of: those that the reasons
// of NodeResourcesFit name.
func Shortages(pod *corev1.Pod, reasons []string, node fwk.NodeInfo) []Shortage {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var found []Shortage
	for _, reason := range reasons {
		name, ok := strings.CutPrefix(reason, Insufficient)
		if reason == tooManyPods {
			total := int64(node.GetAllocatable().GetAllowedPodNumber())
			found = append(found, Shortage{Name: corev1.ResourcePods, Asked: 1, Free: total - int64(len(node.GetPods())), Total: total})
		}
		if !ok {
			continue
		}
		s := Shortage{Name: corev1.ResourceName(name)}
		quantity := requests[s.Name]
		s.Asked = quantity.Value()
		if s.Name == corev1.ResourceCPU {
			s.Asked = quantity.MilliValue()
		}
		s.Total = amountIn(node.GetAllocatable(), s.Name)
		s.Free = s.Total - amountIn(node.GetRequested(), s.Name)
		found = append(found, s)
	}
	return found
}

// distanceOf returns the rank of a node with these shortages, and how much is missing, in
// relation to what is asked for.
func distanceOf(shortages []Shortage) (rank int, gap float64) {
	rank = Busy
	for _, s := range shortages {
		switch {
		case s.Total == 0:
			rank = max(rank, Lacks)
		case s.Asked > s.Total:
			rank = max(rank, Small)
		}
		gap += float64(s.Asked-s.Free) / float64(max(1, s.Asked))
	}
	return rank, gap
}

// String says how much is missing.
func (s *Shortage) String() string {
	switch {
	case s.Name == corev1.ResourcePods:
		return fmt.Sprintf("it already runs %d of at most %d pods", s.Total-s.Free, s.Total)
	case s.Total == 0:
		return fmt.Sprintf("it has no %s", s.Name)
	}
	return fmt.Sprintf("the pod asks for %s of %s, and %s of %s are free", Amount(s.Name, s.Asked), s.Name, Amount(s.Name, max(0, s.Free)), Amount(s.Name, s.Total))
}

// Amount writes an amount of a resource, in the unit of [Shortage], as Kubernetes does.
func Amount(name corev1.ResourceName, n int64) string { q := Quantity(name, n); return q.String() }

// Quantity is an amount of a resource, in the unit of [Shortage].
func Quantity(name corev1.ResourceName, n int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// amountIn returns how much there is of a resource.
func amountIn(r fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.GetMilliCPU()
	case corev1.ResourceMemory:
		return r.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	default:
		return r.GetScalarResources()[name]
	}
}
