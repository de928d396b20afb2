// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// proposeSmallerRequests proposes to ask for what is free on the nodes that come nearest,
// in the container that asks for most.
func proposeSmallerRequests(s *situation, add func(*Change)) {
	for _, n := range s.near() {
		v, ok := n.has(names.NodeResourcesFit)
		if !ok {
			continue
		}
		var texts []string
		var edits []func(*corev1.Pod)
		fraction := 1.0
		for _, l := range shortfall.Shortages(s.pod, v.Reasons, n.info) {
			text, edit, left := smaller(s.pod, &l)
			if edit == nil {
				texts = nil
				break
			}
			texts, edits, fraction = append(texts, text), append(edits, edit), min(fraction, left)
		}
		if len(texts) > 0 {
			add(podChange("smallerRequest", 2.2+3*(1-fraction), all(edits), "%s", strings.Join(texts, "; ")))
		}
	}
}

// smaller proposes to ask for as much less of a resource as is missing. The edit is nil
// if too little would be left.
func smaller(pod *corev1.Pod, l *shortfall.Shortage) (text string, edit func(*corev1.Pod), fraction float64) {
	if l.Name == corev1.ResourcePods {
		return "", nil, 0
	}
	var container string
	var most int64
	for i := range pod.Spec.Containers {
		if asked := requested(&pod.Spec.Containers[i], l.Name); asked > most {
			container, most = pod.Spec.Containers[i].Name, asked
		}
	}
	left := rounded(l.Name, most-(l.Asked-l.Free))
	const least = 10 // less than a tenth is another workload
	if left <= 0 || left*least < most {
		return "", nil, 0
	}
	amount := shortfall.Quantity(l.Name, left)
	text = fmt.Sprintf("in container %s, request %s of %s instead of %s", container, amount.String(), l.Name, shortfall.Amount(l.Name, most))
	return text, editContainer(container, func(resources *corev1.ResourceRequirements) {
		if resources.Requests == nil {
			resources.Requests = corev1.ResourceList{}
		}
		resources.Requests[l.Name] = amount
		if _, ok := resources.Limits[l.Name]; ok && strings.Contains(string(l.Name), "/") { // extended: equal to the limit
			resources.Limits[l.Name] = amount
		}
	}), float64(left) / float64(max(1, most))
}

// requested returns what a container requests, in the unit of [shortfall.Shortage].
func requested(c *corev1.Container, name corev1.ResourceName) int64 {
	q, ok := c.Resources.Requests[name]
	if !ok {
		q = c.Resources.Limits[name]
	}
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// rounded rounds an amount down to one that people write.
func rounded(name corev1.ResourceName, n int64) int64 {
	step := int64(1)
	switch {
	case name == corev1.ResourceCPU && n >= 1000:
		step = 100
	case name == corev1.ResourceCPU && n >= 100:
		step = 10
	case (name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage) && n >= 1<<30:
		step = 1 << 26
	case (name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage) && n >= 1<<20:
		step = 1 << 20
	}
	return n / step * step
}
