// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// whole is one device in thousandths.
const whole = 1000

// amount is some of a device.
type amount struct{ milli, mib int64 }

// board is what a shared node has.
type board struct {
	devices int
	mib     int64
	model   string
	// cordoned are devices that take nothing new.
	cordoned map[int]bool
}

// readNode returns the devices of a shared node; false for a node that has none
// to share, or says so in a way that cannot be read.
func readNode(node *corev1.Node) (board, bool) {
	labels := node.Labels
	if labels[names.GPUSharingLabel] != "true" {
		return board{}, false
	}
	devices, err1 := strconv.Atoi(labels["nvidia.com/gpu.count"])
	mib, err2 := strconv.ParseInt(labels["nvidia.com/gpu.memory"], 10, 64)
	if err1 != nil || err2 != nil || devices < 1 || mib < 1 {
		return board{}, false
	}
	if q := node.Status.Capacity["nvidia.com/gpu"]; !q.IsZero() {
		return board{}, false
	}
	b := board{devices: devices, mib: mib, model: strings.ToLower(labels["nvidia.com/gpu.product"]), cordoned: map[int]bool{}}
	if b.model == "" {
		b.model = "unknown"
	}
	if list := node.Annotations[names.GPUCordonedAnnotation]; list != "" {
		for index := range strings.SplitSeq(list, ",") {
			if i, err := strconv.Atoi(index); err == nil {
				b.cordoned[i] = true
			}
		}
	}
	return b, true
}

// role is a container's part in the life of its pod.
type role int

const (
	once   role = iota // an init container
	beside             // an init container that is restarted: a sidecar
	main
)

// want is what one container asks for.
type want struct {
	container string
	role      role
	// milli and mib are 0 where the container does not say. milli above 1000 is
	// whole devices.
	milli, mib int64
}

func (w want) devices() int { return max(1, int(w.milli/whole)) }

// of is what the container is to get of each of its devices on a node.
func (w want) of(b board) amount {
	a := amount{milli: min(w.milli, whole), mib: w.mib}
	if w.mib == 0 {
		a.mib = max(1, b.mib*a.milli/whole)
	}
	if w.milli == 0 {
		a.milli = max(1, whole*w.mib/b.mib)
	}
	return a
}

// readWants returns what the pod's containers ask for, those that ask.
func readWants(pod *corev1.Pod) []want {
	var wants []want
	add := func(c *corev1.Container, r role) {
		milli, hasMilli := c.Resources.Limits[names.GPUMilliResource]
		memory, hasMemory := c.Resources.Limits[names.GPUMemoryResource]
		if hasMilli || hasMemory {
			const mebibyte = 1 << 20
			wants = append(wants, want{container: c.Name, role: r, milli: milli.Value(), mib: (memory.Value() + mebibyte - 1) / mebibyte})
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c, beside)
		} else {
			add(c, once)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], main)
	}
	return wants
}

// given is what one container was given.
type given struct {
	devices []int
	amount  amount
}

// entry is one container's entry of the record.
var entry = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)=(\d+(?:,\d+)*):(\d+)m:(\d+)Mi$`)

// readRecord returns what the annotations say that each container was given.
func readRecord(pod *corev1.Pod) (map[string]given, error) {
	text, ok := pod.Annotations[names.GPUAssignedAnnotation]
	if !ok {
		return nil, fmt.Errorf("annotation %s is missing", names.GPUAssignedAnnotation)
	}
	record := map[string]given{}
	for part := range strings.SplitSeq(text, ";") {
		m := entry.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("annotation %s: %q is no entry", names.GPUAssignedAnnotation, part)
		}
		var g given
		for index := range strings.SplitSeq(m[3], ",") {
			i, err := strconv.Atoi(index)
			if err != nil {
				return nil, err
			}
			g.devices = append(g.devices, i)
		}
		var err1, err2 error
		g.amount.milli, err1 = strconv.ParseInt(m[4], 10, 64)
		g.amount.mib, err2 = strconv.ParseInt(m[5], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("annotation %s: %q: %w, %w", names.GPUAssignedAnnotation, part, err1, err2)
		}
		if _, twice := record[m[1]]; twice {
			return nil, fmt.Errorf("annotation %s: container %s stands twice", names.GPUAssignedAnnotation, m[1])
		}
		record[m[1]] = g
		if key := names.GPUDevicesAnnotationPrefix + m[1]; pod.Annotations[key] != m[3] {
			return nil, fmt.Errorf("annotation %s is %q, and the record says %q", key, pod.Annotations[key], m[3])
		}
	}
	return record, nil
}

// holds sums up what a pod takes of each device, at the worst moment of its
// life: init containers one at a time, then all the others, and a sidecar from
// its place in the list to the end.
func holds(wants []want, record map[string]given) map[int]amount {
	peak := map[int]amount{}
	var steady []want
	look := func(together []want) {
		sum := map[int]amount{}
		for _, w := range together {
			for _, d := range record[w.container].devices {
				a := record[w.container].amount
				sum[d] = amount{sum[d].milli + a.milli, sum[d].mib + a.mib}
			}
		}
		for d, a := range sum {
			peak[d] = amount{max(peak[d].milli, a.milli), max(peak[d].mib, a.mib)}
		}
	}
	for _, w := range wants {
		if w.role == once {
			look(append(append([]want{}, steady...), w))
			continue
		}
		steady = append(steady, w)
	}
	look(steady)
	return peak
}

// over reports whether the pod's containers have ended for good.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
