// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// place is where an object stands.
type place struct {
	file string
	// line is 0 where lines are not known, and number 0 outside of a list.
	line, number int
}

// String returns "FILE:LINE", or "item N of FILE".
func (p place) String() string {
	switch {
	case p.line > 0:
		return fmt.Sprintf("%s:%d", p.file, p.line)
	case p.number > 0:
		return fmt.Sprintf("item %d of %s", p.number, p.file)
	}
	return p.file
}

// placeKey is an object in a file: one written by hand may stand beside the same object of
// an API server.
type placeKey struct {
	objectKey

	written bool
}

// writtenObject is an object written by hand.
type writtenObject struct {
	object runtime.Object
	key    objectKey
	place  place
}

// Has is [Cluster.Has] of what was read so far.
func (r *Reader) Has(resource string) bool {
	return r.served.Has(resource) || slices.ContainsFunc(r.written, func(o writtenObject) bool { return o.key.resource == resource })
}

// Cluster returns what was read, and what the user should know of it. What somebody has
// written is applied to what comes from an API server, as by [Reader.Onto]. The reader
// must not be used afterwards.
func (r *Reader) Cluster() (*Cluster, []Note) {
	base := r.served
	r.served = Cluster{}
	return r.Onto(&base)
}

// Onto adds what was read to a cluster, and returns it with what the user should know of
// what was read. An object that is there already stays as it is there, and a note says so.
// Pods that somebody has written without the time of their creation come after those that
// are there, and have the priority of their class ([PriorityClasses.Admit]). The reader must
// not be used afterwards.
func (r *Reader) Onto(base *Cluster) (*Cluster, []Note) {
	var notes []Note
	for left, count := range r.left {
		notes = append(notes, Note{Source: left.file, Text: fmt.Sprintf("%d %s", count, left.what)})
	}
	before := base.podsByController()
	for resource := range r.served.resources {
		base.has(resource)
	}
	there := map[string][]objectKey{}
	for _, obj := range r.served.Objects() {
		r.addOnto(base, obj, there)
	}
	arrival := base.afterAll()
	for i := range r.written {
		if pod, ok := r.written[i].object.(*corev1.Pod); ok && pod.CreationTimestamp.IsZero() {
			pod.CreationTimestamp = arrival
		}
		r.addOnto(base, r.written[i].object, there)
	}
	notes = append(notes, r.setPriorities(base)...)
	for file, keys := range there {
		notes = append(notes, Note{Source: file, Text: fmt.Sprintf("%d object(s) are in the cluster already and are taken as they are there, for example %s", len(keys), keys[0])})
	}
	for i := range r.workloads {
		notes = append(notes, r.workloads[i].notes(before)...)
	}
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.String(), b.String()) })
	return base, append(notes, base.strayNotes()...)
}

// addOnto adds an object, unless it is there already: then it takes note of where it stands.
func (r *Reader) addOnto(base *Cluster, obj runtime.Object, there map[string][]objectKey) {
	err := base.Add(obj)
	if err == nil {
		return
	}
	// It was validated when it was read: all that can be is that it is there already.
	kind, _ := KindOf(obj)
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	key := keyOf(kind, accessor)
	for _, written := range []bool{true, false} {
		if place, ok := r.places[placeKey{key, written}]; ok {
			there[place.file] = append(there[place.file], key)
			return
		}
	}
}

// afterAll returns a time after the creation of all pods; none if no pod has one.
func (c *Cluster) afterAll() metav1.Time {
	var newest metav1.Time
	for _, pod := range c.pods {
		if newest.Before(&pod.CreationTimestamp) {
			newest = pod.CreationTimestamp
		}
	}
	if newest.IsZero() {
		return newest
	}
	return metav1.NewTime(newest.Add(time.Second))
}

// controller is what pods belong to, as a manifest names it.
type controller struct {
	kind, namespace, name string
}

// podsByController counts the pods of each controller; those of a Deployment's ReplicaSet
// are the Deployment's.
func (c *Cluster) podsByController() map[controller]int {
	above := map[controller]string{}
	for _, obj := range c.others {
		if accessor, ok := obj.(metav1.Object); ok {
			if owner := metav1.GetControllerOfNoCopy(accessor); owner != nil && owner.Kind == "Deployment" {
				above[controller{"ReplicaSet", accessor.GetNamespace(), accessor.GetName()}] = owner.Name
			}
		}
	}
	count := map[controller]int{}
	for _, pod := range c.pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			continue
		}
		of := controller{owner.Kind, pod.Namespace, owner.Name}
		if deployment, ok := above[of]; ok {
			of = controller{"Deployment", pod.Namespace, deployment}
		}
		count[of]++
	}
	return count
}

// IsWritten reports whether the pod was written by hand: an API server would have given it a
// UID.
func IsWritten(pod *corev1.Pod) bool {
	return len(pod.UID) > len(uidPrefix) && pod.UID[:len(uidPrefix)] == uidPrefix
}
