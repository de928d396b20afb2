// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// History judges versions of pods as they come. It may be used by several
// goroutines; versions of one pod must come in order.
type History struct {
	mu       sync.Mutex
	problems Problems
	last     map[types.UID]placed
	versions int
	bindings int
}

// placed is what must not change any more once a pod has a node.
type placed struct {
	node   string
	record map[string]string
}

// NewHistory returns one that has seen nothing.
func NewHistory() *History {
	return &History{last: map[types.UID]placed{}}
}

// Saw judges one version of a pod, as an event or a list delivered it.
func (h *History) Saw(pod *corev1.Pod) {
	if len(readWants(pod)) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions++
	h.problems = append(h.problems, torn(pod)...)
	now := placed{node: pod.Spec.NodeName, record: recordIn(pod)}
	before, seen := h.last[pod.UID]
	if seen && before.node != "" && (before.node != now.node || !maps.Equal(before.record, now.record)) {
		h.problems = append(h.problems, Problem{
			Kind: Moved, Object: nameOf(pod),
			Detail: fmt.Sprintf("version %s is on %q with %v, and before on %q with %v", pod.ResourceVersion, now.node, now.record, before.node, before.record),
		})
	}
	if before.node == "" && now.node != "" {
		h.bindings++
	}
	h.last[pod.UID] = now
}

// Problems returns what was wrong, how many versions were seen, and of how many
// pods a version with a node.
func (h *History) Problems() (problems Problems, versions, bindings int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problems.sorted(), h.versions, h.bindings
}

// torn returns the problem of a version that has a node without devices, or
// devices without a node.
func torn(pod *corev1.Pod) Problems {
	recorded := recordIn(pod)
	_, hasRecord := recorded[names.GPUAssignedAnnotation]
	readable := 0
	wants := readWants(pod)
	for _, w := range wants {
		if _, ok := recorded[names.GPUDevicesAnnotationPrefix+w.container]; ok {
			readable++
		}
	}
	node := pod.Spec.NodeName != ""
	if node && hasRecord && readable == len(wants) || !node && len(recorded) == 0 {
		return nil
	}
	return Problems{{
		Kind: Torn, Object: nameOf(pod),
		Detail: fmt.Sprintf("version %s is on node %q with the annotations %v", pod.ResourceVersion, pod.Spec.NodeName, recorded),
	}}
}

// recordIn returns the annotations that the Binding writes.
func recordIn(pod *corev1.Pod) map[string]string {
	record := map[string]string{}
	for key, value := range pod.Annotations {
		if key == names.GPUAssignedAnnotation || strings.HasPrefix(key, names.GPUDevicesAnnotationPrefix) {
			record[key] = value
		}
	}
	return record
}
