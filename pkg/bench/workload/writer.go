// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// writer writes out one plan.
type writer struct {
	spec   *Spec
	format RequestFormat
	plan   *Plan
	// lifetimes are thrown in the order in which pods are listed.
	lifetimes *rand.Rand
}

// Plan writes out a workload that [Read] has returned. It fails on a format that is
// none of [RequestFormats], and where existing pods do not fit on the nodes; the error names
// file and field.
func (w *Workload) Plan(format RequestFormat) (*Plan, error) {
	if !slices.Contains(RequestFormats(), format) {
		return nil, fmt.Errorf("format %q: want one of %v", format, RequestFormats())
	}
	out := &writer{spec: &w.Spec, format: format, plan: &Plan{groups: map[string]*Group{}}}
	out.lifetimes = out.random(streamLifetime)
	if err := out.write(); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Path, err)
	}
	return out.plan, nil
}

func (w *writer) write() error {
	w.plan.Nodes = writeNodes(w.spec.Nodes, w.format)
	if err := w.placeExisting(); err != nil {
		return err
	}
	counts := counts(w.spec)
	for i := range w.spec.Pods {
		group := &w.spec.Pods[i]
		g, pods := asked(group), w.groupTemplate(group)
		for n := range counts[i] {
			w.arrive(named(&pods, podName(group.Name, n)), g, group.Lifetime)
		}
	}
	for i := range w.spec.Applications {
		if err := w.writeApplication(&w.spec.Applications[i]); err != nil {
			return err
		}
	}
	w.order()
	w.schedule()
	if w.spec.Hostile != nil {
		w.plan.Hostile = writeHostile(w.spec.Hostile, w.plan.Nodes)
	}
	w.note()
	return nil
}

// arrive adds a pod, as listed.
func (w *writer) arrive(pod *corev1.Pod, group *Group, life *Lifetime) {
	w.plan.Arrivals = append(w.plan.Arrivals, Arrival{Pod: pod, Lifetime: lifetime(life, w.lifetimes)})
	w.plan.groups[pod.Name] = group
}
