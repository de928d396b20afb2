// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// History checks versions of pods as they come, and whether a device was ever given twice:
// whether the versions at which pods had the same one overlap. It may be used by several
// goroutines; versions of one pod must come in order.
type History struct {
	mu         sync.Mutex
	violations Violations
	last       map[types.UID]placement
	versions   int
	bindings   int
	holds      map[types.UID]*hold
	ended      []*hold
}

// placement is what must not change any more once a pod has a node.
type placement struct {
	node   string
	record map[string]string
}

// NewHistory returns one that has seen nothing.
func NewHistory() *History {
	return &History{last: map[types.UID]placement{}, holds: map[types.UID]*hold{}}
}

// Observe checks one version of a pod, as an event or a list delivered it. Pods without
// shares are left out.
func (h *History) Observe(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	h.observe(pod, moment{version, version}, Writer{})
}

// observe checks a version that was written at a moment.
func (h *History) observe(pod *corev1.Pod, at moment, by Writer) {
	if !requestsDevices(pod) {
		return
	}
	h.versions++
	if wrong := torn(pod); len(wrong) > 0 {
		h.violations = append(h.violations, wrong...)
	} else if pod.Spec.NodeName != "" {
		h.violations = append(h.violations, wrongParts(pod)...)
	}
	now := placement{node: pod.Spec.NodeName, record: written(pod)}
	before := h.last[pod.UID]
	if before.node != "" && (before.node != now.node || !maps.Equal(before.record, now.record)) {
		h.violations.add(Moved, podName(pod), "version %s is on %q with %v, and before on %q with %v", pod.ResourceVersion, now.node, now.record, before.node, before.record)
	}
	if before.node == "" && now.node != "" {
		h.bindings++
	}
	h.last[pod.UID] = now
	h.hold(pod, at, by)
}

// rename has what is known of a pod go by another UID.
func (h *History) rename(from, to types.UID) {
	if held := h.holds[from]; held != nil {
		h.holds[to] = held
	}
	h.last[to] = h.last[from]
	h.forget(from)
}

// forget drops what is known of a pod.
func (h *History) forget(uid types.UID) {
	delete(h.last, uid)
	delete(h.holds, uid)
}

// Violations returns what was wrong, how many versions were seen, and of how many pods a
// version with a node.
func (h *History) Violations() (violations Violations, versions, bindings int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	violations = append(slices.Clone(h.violations), h.givenTwice()...)
	return violations.sorted(), h.versions, h.bindings
}

// wrongParts returns a violation for each container of a bound pod whose record has not the parts that it requests.
func wrongParts(pod *corev1.Pod) Violations {
	var found Violations
	given, _ := readRecord(pod)
	requests, _ := readRequests(pod)
	for _, r := range requests {
		if g := given[r.container]; !g.answers(r) {
			found.add(WrongRecord, podName(pod), "container %q requests %d device(s), %dm and %dMi, and was given %v of %v", r.container, r.devices(), r.milli, r.mib, g.amount, g.indexes)
		}
	}
	return found
}

// answers reports whether what a container was given has the parts that it requests. What it does not
// request depends on the node: CheckDevices checks that.
func (r recorded) answers(to request) bool {
	return sets.New(r.indexes...).Len() == to.devices() && len(r.indexes) == to.devices() &&
		(to.milli == 0 || r.amount.milli == min(to.milli, whole)) && (to.mib == 0 || r.amount.mib == to.mib)
}

// torn returns the violation of a version that has a node without devices, or devices
// without a node.
func torn(pod *corev1.Pod) Violations {
	record := written(pod)
	given, err := readRecord(pod)
	complete := err == nil
	requests, _ := readRequests(pod)
	for _, r := range requests {
		_, reads := record[devicesPrefix+r.container]
		_, recorded := given[r.container]
		complete = complete && reads && recorded
	}
	if pod.Spec.NodeName != "" && complete || pod.Spec.NodeName == "" && len(record) == 0 {
		return nil
	}
	return Violations{{
		Kind: Torn, Object: podName(pod),
		Detail: fmt.Sprintf("version %s is on node %q with the annotations %v", pod.ResourceVersion, pod.Spec.NodeName, record),
	}}
}
