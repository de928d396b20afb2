// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Device is one device of a shared node, and who holds what of it.
type Device struct {
	// Node and Model are as the node's name and label say.
	Node, Model string
	// Index counts from zero.
	Index int
	// MemoryMiB is what the device has. Compute is 1000 thousandths always.
	MemoryMiB int64
	// Holders are in the order of namespace and name of their pods.
	Holders []Holder
}

// Holder is a container that was given a share of a device.
type Holder struct {
	Namespace, Pod, Container string
	Milli, MemoryMiB          int64
}

// FreeMilli returns the thousandths that nobody holds. It is negative if more is
// held than there is.
func (d *Device) FreeMilli() int64 {
	free := int64(milliPerDevice)
	for i := range d.Holders {
		free -= d.Holders[i].Milli
	}
	return free
}

// FreeMiB is FreeMilli for memory.
func (d *Device) FreeMiB() int64 {
	free := d.MemoryMiB
	for i := range d.Holders {
		free -= d.Holders[i].MemoryMiB
	}
	return free
}

// overfull returns a violation if more is held of the device than it has.
func (d *Device) overfull() []string {
	if d.FreeMilli() >= 0 && d.FreeMiB() >= 0 {
		return nil
	}
	var holders []string
	for _, h := range d.Holders {
		holders = append(holders, fmt.Sprintf("%s/%s %s (%dm %dMi)", h.Namespace, h.Pod, h.Container, h.Milli, h.MemoryMiB))
	}
	return []string{fmt.Sprintf("device %d of node %q: %dm and %dMi are held of %dm and %dMi, by %s",
		d.Index, d.Node, milliPerDevice-d.FreeMilli(), d.MemoryMiB-d.FreeMiB(), milliPerDevice, d.MemoryMiB, strings.Join(holders, ", "))}
}

// stock is what all devices have, and what the annotations of bound pods say that
// they hold.
type stock struct {
	gpu *GPU
	// devices are those of each shared node, by their index.
	devices map[string][]Device
	// violations are those of nodes, broken those of pods.
	violations []string
	broken     map[podKey][]string
}

// takeStock reads the nodes and the pods. Pods are taken in the order of their
// names, so that the same cluster gives the same stock.
func takeStock(gpu *GPU, nodes []corev1.Node, pods []corev1.Pod) *stock {
	s := &stock{gpu: gpu, devices: map[string][]Device{}, broken: map[podKey][]string{}}
	if gpu == nil {
		return s
	}
	for i := range nodes {
		s.add(&nodes[i])
	}
	var keys []podKey
	bound := map[podKey]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			key := podKey{pod.Namespace, pod.Name}
			keys, bound[key] = append(keys, key), pod
		}
	}
	slices.SortFunc(keys, podKey.compare)
	for _, key := range keys {
		if violations := s.hold(bound[key]); len(violations) > 0 {
			s.broken[key] = violations
		}
	}
	return s
}

// all returns the devices of all nodes, by the node's name and the index.
func (s *stock) all() []Device {
	var all []Device
	for _, node := range slices.Sorted(maps.Keys(s.devices)) {
		all = append(all, s.devices[node]...)
	}
	return all
}

// deviceViolations returns what is wrong with nodes that share devices, with the
// shares of pods that are not judged, and with devices of which too much is held.
func (j *judge) deviceViolations() []string {
	violations := slices.Clone(j.stock.violations)
	judged := map[podKey]bool{}
	for _, pod := range j.pods {
		judged[podKey{pod.Namespace, pod.Name}] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.stock.broken), podKey.compare) {
		if judged[key] {
			continue // said of the pod
		}
		for _, violation := range j.stock.broken[key] {
			violations = append(violations, fmt.Sprintf("pod %s: %s", key, violation))
		}
	}
	for _, device := range j.stock.all() {
		violations = append(violations, device.overfull()...)
	}
	return violations
}

// add puts the devices of a shared node into the stock.
func (s *stock) add(node *corev1.Node) {
	if node.Labels[s.gpu.SharingLabel] != "true" {
		return
	}
	s.violations = append(s.violations, s.gpu.unknown(fmt.Sprintf("node %q: ", node.Name), node.Annotations)...)
	count, memory, err := s.gpu.size(node)
	if err != nil {
		s.violations = append(s.violations, err.Error())
		return
	}
	for i := range count {
		s.devices[node.Name] = append(s.devices[node.Name], Device{Node: node.Name, Model: node.Labels[s.gpu.ModelLabel], Index: i, MemoryMiB: memory})
	}
}

// hold writes down what a bound pod holds, and returns what is wrong with it. What
// a wrong record names is held all the same.
func (s *stock) hold(pod *corev1.Pod) []string {
	asks, err := s.gpu.asks(pod)
	if err != nil {
		return []string{err.Error()}
	}
	text, recorded := pod.Annotations[s.gpu.RecordAnnotation]
	switch {
	case !recorded && len(asks) == 0:
		return nil
	case !recorded:
		return []string{fmt.Sprintf("asks for devices, and has no annotation %s that says which", s.gpu.RecordAnnotation)}
	}
	records, err := parseRecords(text)
	if err != nil {
		return []string{fmt.Sprintf("annotation %s: %v", s.gpu.RecordAnnotation, err)}
	}
	violations := s.gpu.unknown("", pod.Annotations)
	for i := range records {
		violations = append(violations, s.give(pod, &records[i])...)
	}
	for i := range asks {
		violations = append(violations, s.agree(pod, &asks[i], records)...)
	}
	for _, r := range records {
		if !slices.ContainsFunc(asks, func(a ask) bool { return a.container == r.container }) {
			violations = append(violations, fmt.Sprintf("container %q was given devices, and asks for none", r.container))
		}
	}
	return violations
}

// give makes a container a holder of its devices.
func (s *stock) give(pod *corev1.Pod, r *record) []string {
	devices := s.devices[pod.Spec.NodeName]
	var violations []string
	for _, i := range r.devices {
		if i >= len(devices) {
			violations = append(violations, fmt.Sprintf("container %q was given device %d of node %q, which shares %d", r.container, i, pod.Spec.NodeName, len(devices)))
			continue
		}
		devices[i].Holders = append(devices[i].Holders, Holder{pod.Namespace, pod.Name, r.container, r.milli, r.memoryMiB})
	}
	return violations
}

// agree holds what a container was given against what it asks for.
func (s *stock) agree(pod *corev1.Pod, a *ask, records []record) []string {
	at := slices.IndexFunc(records, func(r record) bool { return r.container == a.container })
	if at < 0 {
		return []string{fmt.Sprintf("container %q asks for devices, and annotation %s says nothing of it", a.container, s.gpu.RecordAnnotation)}
	}
	r := &records[at]
	var violations []string
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(r.devices)))); distinct != a.devices || len(r.devices) != a.devices {
		violations = append(violations, fmt.Sprintf("container %q asks for %d devices, and was given %s", a.container, a.devices, r.indexes()))
	}
	if devices := s.devices[pod.Spec.NodeName]; len(devices) > 0 {
		milli, memory := a.complete(devices[0].MemoryMiB)
		if r.milli != milli || r.memoryMiB != memory {
			violations = append(violations, fmt.Sprintf("container %q asks for %dm and %dMi of each device, and was given %dm and %dMi", a.container, milli, memory, r.milli, r.memoryMiB))
		}
	}
	key := s.gpu.DevicesPrefix + a.container
	if visible, ok := pod.Annotations[key]; !ok || visible != r.indexes() {
		violations = append(violations, fmt.Sprintf("container %q was given devices %s, and reads %q (annotation %s)", a.container, r.indexes(), visible, key))
	}
	return violations
}

// complete returns what is asked of a device with so much memory: of what was left
// out the same part, rounded down, and at least 1.
func (a *ask) complete(deviceMiB int64) (milli, memoryMiB int64) {
	milli, memoryMiB = a.milli, a.memoryMiB
	if milli == 0 {
		milli = max(1, memoryMiB*milliPerDevice/deviceMiB)
	}
	if memoryMiB == 0 {
		memoryMiB = max(1, milli*deviceMiB/milliPerDevice)
	}
	return milli, memoryMiB
}
