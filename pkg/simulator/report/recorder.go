// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// Recorder turns the events of one simulation into a [Run]. It is not safe for
// concurrent use.
type Recorder struct {
	usage  *clusterUsage
	series series

	arrivedMilli      int64
	arrived, evicted  int
	placed            int
	failed            [shapes]int
	failedSeveral     int
	failedConstrained int
	failedMilli       int64
	placements        []Placement
	podGroups         []PodGroup
}

// NewRecorder starts with the nodes and the pods that are bound to them. keys say
// how nodes describe their devices. workload is what fragmentation is measured
// against, from [device.TypicalWorkload]; with nil it is not measured. That a
// device is given away twice among the bound pods is not checked: a cluster can be
// like that.
func NewRecorder(nodes []*corev1.Node, bound []*corev1.Pod, keys *device.NodeKeys, workload *device.Workload) *Recorder {
	r := &Recorder{usage: newClusterUsage(nodes, keys, workload)}
	for _, pod := range bound {
		d := podRequestOf(pod, keys)
		r.usage.add(pod, &d)
	}
	r.usage.unrecorded = 0 // counts those that arrive
	r.series.start = r.state()
	return r
}

// Record takes note of what became of a pod. An error is a contradiction between
// the event and those before it, and a fault of the engine.
func (r *Recorder) Record(event Event) error {
	for _, victim := range event.Victims {
		r.usage.remove(victim.UID)
		r.evicted++
	}
	pod := event.Pod
	d := podRequestOf(pod, r.usage.keys)
	if event.Asked != nil {
		d = podRequestOf(event.Asked, r.usage.keys)
		d.less = true
	}
	asked := d.milli(r.usage.largestDevice)
	r.arrived++
	if event.Node == "" {
		r.fail(&d, asked)
	} else {
		if pod.Spec.NodeName != event.Node {
			return fmt.Errorf("pod %s/%s was bound to node %q, but spec.nodeName is %q", pod.Namespace, pod.Name, event.Node, pod.Spec.NodeName)
		}
		given, err := r.place(pod, &d)
		if err != nil {
			return err
		}
		// What was derived depends on the node.
		asked = max(asked, given)
	}
	r.arrivedMilli += asked
	r.series.add(r.load(), r.state())
	r.placements = append(r.placements, placementOf(&event))
	return nil
}

func placementOf(event *Event) Placement {
	pod := event.Pod
	p := Placement{
		Pod: pod.Namespace + "/" + pod.Name, Node: event.Node,
		Devices: pod.Annotations[names.GPUAssignedAnnotation], Message: event.Message, Beside: event.Beside,
		PodGroup: event.PodGroup, Proposed: event.Proposed, Claimed: event.Claimed,
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		p.Of = owner.Kind + " " + pod.Namespace + "/" + owner.Name
	}
	for _, victim := range event.Victims {
		p.Evicts = append(p.Evicts, victim.Namespace+"/"+victim.Name)
	}
	return p
}

func (r *Recorder) place(pod *corev1.Pod, d *podRequest) (int64, error) {
	a, ok := r.usage.byName[pod.Spec.NodeName]
	if !ok {
		return 0, fmt.Errorf("pod %s/%s was bound to node %q, which does not exist", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	if _, ok := r.usage.held[pod.UID]; ok {
		return 0, fmt.Errorf("pod %s/%s was bound twice", pod.Namespace, pod.Name)
	}
	a.touched = true
	r.placed++
	given, overcommitted := r.usage.add(pod, d)
	if overcommitted {
		return 0, fmt.Errorf("pod %s/%s was given a device of node %s that is in use or does not exist", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	return given, nil
}

func (r *Recorder) fail(d *podRequest, asked int64) {
	r.failed[d.shape()]++
	if d.several() {
		r.failedSeveral++
	}
	if d.constrained() {
		r.failedConstrained++
	}
	r.failedMilli += asked
}

// load is what has arrived, in percent of all devices.
func (r *Recorder) load() float64 {
	return percent(float64(r.arrivedMilli), float64(r.usage.capacity.milli))
}

// state is the cluster as it is now.
func (r *Recorder) state() Point {
	capacity, fragmented := float64(r.usage.capacity.milli), r.usage.fragmented()
	return Point{
		Allocated:  percent(float64(r.usage.used.milli), capacity),
		Fragmented: percent(fragmented, capacity),
		Ratio:      percent(fragmented, float64(r.usage.idle)),
	}
}

// percent returns which part of whole it is; 0 of nothing.
func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}
