// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// What NodeResourcesFit says.
const (
	insufficient = "Insufficient "
	tooManyPods  = "Too many pods"
)

// lack is a resource of which a node has too little left. Amounts are in the unit in which
// the scheduler counts: thousandths of a CPU, else the resource's own.
type lack struct {
	name               corev1.ResourceName
	asked, free, total int64
}

// text says how much is missing.
func (l *lack) text() string {
	if l.name == corev1.ResourcePods {
		return fmt.Sprintf("it has all the %d pods that it takes", l.total)
	}
	if l.total == 0 {
		return fmt.Sprintf("it has no %s", l.name)
	}
	return fmt.Sprintf("the pod asks for %s of %s, and %s of %s are free", l.amount(l.asked), l.name, l.amount(max(0, l.free)), l.amount(l.total))
}

func (l *lack) amount(n int64) string { return amountOf(l.name, n) }

// amountOf writes an amount of a resource as Kubernetes does.
func amountOf(name corev1.ResourceName, n int64) string { q := quantityOf(name, n); return q.String() }

// quantityOf is an amount of a resource.
func quantityOf(name corev1.ResourceName, n int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// lacks returns of which resources the node has too little, as the verdict names them.
func lacks(pod *corev1.Pod, v engine.Verdict, n fwk.NodeInfo) []lack {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var found []lack
	for _, reason := range v.Reasons {
		name, ok := strings.CutPrefix(reason, insufficient)
		if reason == tooManyPods {
			total := int64(n.GetAllocatable().GetAllowedPodNumber())
			found = append(found, lack{name: corev1.ResourcePods, asked: 1, free: total - int64(len(n.GetPods())), total: total})
		}
		if !ok {
			continue
		}
		l := lack{name: corev1.ResourceName(name)}
		quantity := requests[l.name]
		l.asked = quantity.Value()
		if l.name == corev1.ResourceCPU {
			l.asked = quantity.MilliValue()
		}
		l.total = amountIn(n.GetAllocatable(), l.name)
		l.free = l.total - amountIn(n.GetRequested(), l.name)
		found = append(found, l)
	}
	return found
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

func rankResources(s *situation, v engine.Verdict, n fwk.NodeInfo) (rank int, gap float64) {
	rank = rankBusy
	for _, l := range lacks(s.pod, v, n) {
		switch {
		case l.total == 0:
			rank = max(rank, rankLacks)
		case l.asked > l.total:
			rank = max(rank, rankSmall)
		}
		gap += float64(l.asked-l.free) / float64(max(1, l.asked))
	}
	return rank, gap
}

func detailResources(s *situation, v engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, l := range lacks(s.pod, v, n) {
		texts = append(texts, l.text())
	}
	return strings.Join(texts, ", ")
}
