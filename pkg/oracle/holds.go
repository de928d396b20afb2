// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// moment is when a write took place: between its request and its answer, in microseconds, or
// at one resourceVersion. Zero is not known.
type moment struct{ earliest, latest uint64 }

// hold is that a pod has parts of devices, from one moment to another. The moments of all pods
// are one sequence.
type hold struct {
	pod string
	by  Writer
	// milli of each device, by the node and what the container reads: an index or a UUID.
	milli map[string]int64
	// from and to are those between which the pod certainly had them: to is the moment that
	// ends it, or where that was missed the last that showed it; MaxUint64 while it lasts.
	from, to uint64
}

// hold takes note of what a version of a pod has. A pod whose record or version cannot be
// read has nothing here.
func (h *History) hold(pod *corev1.Pod, at moment, by Writer) {
	_, known := h.holds[pod.UID]
	switch {
	case at == moment{}:
	case terminated(pod):
		h.end(pod.UID, at.earliest)
	case !known && pod.Spec.NodeName != "":
		requests, _ := readRequests(pod)
		record, err := readRecord(pod)
		if err != nil {
			return
		}
		held := &hold{pod: podName(pod), by: by, milli: map[string]int64{}, from: at.latest, to: math.MaxUint64}
		for device, a := range peak(requests, record, recorded.device) {
			held.milli[pod.Spec.NodeName+"/"+device] = a.milli
		}
		h.holds[pod.UID] = held
	}
}

// Gone takes note that a pod is no longer there. pod is as the watch's event of its deletion
// has it, or where that was missed the last version that was seen.
func (h *History) Gone(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64); err == nil {
		h.end(pod.UID, version)
	}
}

// end ends what a pod has at a moment.
func (h *History) end(uid types.UID, at uint64) {
	if held := h.holds[uid]; held != nil {
		held.to = at
		h.ended = append(h.ended, held)
		delete(h.holds, uid)
	}
}

// givenTwice returns a violation for each pod that was given part of a device when too
// little of its compute was left. Of memory nodes say how much there is: CheckDevices
// checks that.
func (h *History) givenTwice() Violations {
	var found Violations
	for _, o := range h.overlaps() {
		var to []string
		for _, held := range o.holds {
			to = append(to, fmt.Sprintf("%s (%dm)", held.pod, held.milli[o.device]))
		}
		found = append(found, Violation{
			Kind: Overcommitted, Object: o.device, Pods: o.pods(),
			Detail: fmt.Sprintf("%dm of %dm of device %s were allocated at version %d, to %s", o.milli, whole, o.device, o.from, strings.Join(to, ", ")),
		})
	}
	return found
}

// overlap is that pods had more of a device than it has, from one moment to another.
type overlap struct {
	device   string
	holds    []*hold
	milli    int64
	from, to uint64
}

// pods returns the names of the pods, sorted.
func (o overlap) pods() []string {
	var pods []string
	for _, held := range o.holds {
		pods = append(pods, held.pod)
	}
	slices.Sort(pods)
	return pods
}

// overlaps returns one for each pod that was given part of a device when too little of its
// compute was left.
func (h *History) overlaps() []overlap {
	byDevice := map[string][]*hold{}
	for _, held := range slices.AppendSeq(slices.Clone(h.ended), maps.Values(h.holds)) {
		for device := range held.milli {
			byDevice[device] = append(byDevice[device], held)
		}
	}
	var found []overlap
	for _, device := range slices.Sorted(maps.Keys(byDevice)) {
		holds := byDevice[device]
		slices.SortFunc(holds, func(a, b *hold) int { return cmp.Compare(a.from, b.from) })
		var now []*hold
		for _, next := range holds {
			if next.to <= next.from {
				continue // its end was written before its beginning was answered
			}
			now = append(slices.DeleteFunc(now, func(held *hold) bool { return held.to <= next.from }), next)
			o := overlap{device: device, holds: slices.Clone(now), from: next.from, to: math.MaxUint64}
			for _, held := range now {
				o.milli += held.milli[device]
				o.to = min(o.to, held.to)
			}
			if o.milli > whole {
				found = append(found, o)
			}
		}
	}
	return found
}
