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
)

// hold is that a pod has parts of devices, from one resourceVersion to another. Versions
// of all pods are one sequence.
type hold struct {
	pod string
	// milli of each device, by the node and what the container reads: an index or a UUID.
	milli map[string]int64
	// from is the version that first showed it, and to the one that shows its end, or where
	// that was missed the last that showed it; MaxUint64 while it lasts.
	from, to uint64
}

// hold takes note of what a version of a pod has. A pod whose record or version cannot be
// read has nothing here.
func (h *History) hold(pod *corev1.Pod) {
	version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	_, known := h.holds[pod.UID]
	switch {
	case terminated(pod):
		h.end(pod, version)
	case !known && pod.Spec.NodeName != "":
		requests, _ := readRequests(pod)
		record, err := readRecord(pod)
		if err != nil {
			return
		}
		held := &hold{pod: podName(pod), milli: map[string]int64{}, from: version, to: math.MaxUint64}
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
		h.end(pod, version)
	}
}

// end ends what the pod has at a version.
func (h *History) end(pod *corev1.Pod, version uint64) {
	if held := h.holds[pod.UID]; held != nil {
		held.to = version
		h.ended = append(h.ended, held)
		delete(h.holds, pod.UID)
	}
}

// givenTwice returns a violation for each pod that was given part of a device when too
// little of its compute was left. Of memory nodes say how much there is: CheckDevices
// checks that.
func (h *History) givenTwice() Violations {
	byDevice := map[string][]*hold{}
	for _, held := range slices.AppendSeq(slices.Clone(h.ended), maps.Values(h.holds)) {
		for device := range held.milli {
			byDevice[device] = append(byDevice[device], held)
		}
	}
	var found Violations
	for device, holds := range byDevice {
		slices.SortFunc(holds, func(a, b *hold) int { return cmp.Compare(a.from, b.from) })
		var now []*hold
		for _, next := range holds {
			now = slices.DeleteFunc(now, func(held *hold) bool { return held.to <= next.from })
			now = append(now, next)
			var sum int64
			var pods, to []string
			for _, held := range now {
				sum += held.milli[device]
				pods = append(pods, held.pod)
				to = append(to, fmt.Sprintf("%s (%dm)", held.pod, held.milli[device]))
			}
			if sum > whole {
				slices.Sort(pods)
				found = append(found, Violation{
					Kind: Overcommitted, Object: device, Pods: pods,
					Detail: fmt.Sprintf("%dm of %dm of device %s were allocated at version %d, to %s", sum, whole, device, next.from, strings.Join(to, ", ")),
				})
			}
		}
	}
	return found
}
