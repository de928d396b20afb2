// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// podWeight is what one pod adds to the weight of its shape. It leaves room
	// for the decay to work in whole numbers.
	podWeight = 1 << 20
	// decayEvery is after how many pods every weight loses 1/decayPart of itself.
	// A pod's weight is halved after about 700 further pods.
	decayEvery = 64
	decayPart  = 16
	// publishEvery is after how many pods it is published what is expected. All
	// remembered scores are worthless then, and pricing has its cost.
	publishEvery = 256
	// maxShapes bounds the shapes that are remembered, and maxTypical those that
	// are expected. The cost of a score is proportional to what of them differs on
	// one kind of node, which are far fewer: many differ in the models they accept.
	maxShapes  = 512
	maxTypical = 128
	// learntPercent is the part of the weight that is expected.
	learntPercent = 98
)

// learner is a decaying histogram of what pods ask for. Pods that ask for no
// device are left out: their part of the measure is the same on every node.
//
// It counts a pod when it is first about to be scheduled, in the scheduling
// goroutine and nowhere else: the same pods in the same order give the same
// workload, whatever informers do meanwhile. What was learnt is not stored
// anywhere. At the start the pods that are on the nodes stand for it, the oldest
// first.
type learner struct {
	shapes   map[string]*learntShape
	count    int
	restored bool

	// mu guards seen, from which the informer's handler removes.
	mu   sync.Mutex
	seen map[types.UID]struct{}
}

type learntShape struct {
	key    string
	shape  device.Shape
	weight int64
}

func newLearner() *learner {
	return &learner{shapes: map[string]*learntShape{}, seen: map[types.UID]struct{}{}}
}

// forget lets go of a pod that is gone. Its weight stays.
func (l *learner) forget(uid types.UID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, uid)
}

// isNew reports whether the pod was not counted yet, and remembers it.
func (l *learner) isNew(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.seen[uid]; ok {
		return false
	}
	l.seen[uid] = struct{}{}
	return true
}

// learn takes note of a pod, once, and publishes what is expected now and then:
// every publication makes all remembered scores worthless.
func (w *workload) learn(pl *GPUDevice, pod *corev1.Pod, demand device.Demand, nodes []fwk.NodeInfo) {
	l := w.learner
	if l == nil {
		return
	}
	due := false
	if !l.restored {
		l.restored = true
		due = l.restore(pl, nodes)
	}
	if l.isNew(pod.UID) {
		due = l.add(device.ShapeOf(demand)) || due
	}
	if !due {
		return
	}
	if expected := l.typical(); expected != nil {
		w.publish(expected)
	}
}

// restore counts the pods that are on nodes.
func (l *learner) restore(pl *GPUDevice, nodes []fwk.NodeInfo) (due bool) {
	type running struct {
		created metav1.Time
		uid     types.UID
		shape   device.Shape
	}
	var pods []running
	for _, nodeInfo := range nodes {
		for _, podInfo := range nodeInfo.GetPods() {
			pod := podInfo.GetPod()
			request, err := device.ParsePod(pod, pl.deviceResources)
			if err != nil || request.Form == device.FormNone {
				continue
			}
			shape := device.ShapeOf(device.Demand{Request: request, CPUMilli: cpuMilli(pod)})
			pods = append(pods, running{created: pod.CreationTimestamp, uid: pod.UID, shape: shape})
		}
	}
	slices.SortFunc(pods, func(a, b running) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.uid, b.uid))
	})
	for _, pod := range pods {
		if l.isNew(pod.uid) {
			l.add(pod.shape)
			due = true
		}
	}
	return due
}

// add counts one pod, and reports whether it is time to publish: often while
// little is known, and every publishEvery pods later.
func (l *learner) add(shape device.Shape) (due bool) {
	shape.CPUMilli = coarse(shape.CPUMilli)
	key := fmt.Sprintf("%d %d %d %d %d %s", shape.CPUMilli, shape.Devices, shape.Milli, shape.MemoryMiB, shape.MinMemoryMiB, shape.Models)
	known, ok := l.shapes[key]
	if !ok {
		known = &learntShape{key: key, shape: shape}
		l.shapes[key] = known
	}
	known.weight += podWeight
	l.count++
	if len(l.shapes) > maxShapes {
		l.dropLightest(known)
	}
	if l.count%decayEvery == 0 {
		l.decay()
	}
	return l.count%publishEvery == 0 || l.count < publishEvery && l.count&(l.count-1) == 0
}

// coarse rounds an amount of CPU up to three significant bits. Requests that
// differ by a little are the same shape: a histogram with a bar for each pod
// expects nothing.
func coarse(cpuMilli int64) int64 {
	step := int64(1)
	for cpuMilli/step >= 8 {
		step *= 2
	}
	return (cpuMilli + step - 1) / step * step
}

// decay makes room for what comes.
func (l *learner) decay() {
	for key, s := range l.shapes {
		s.weight -= s.weight / decayPart
		if s.weight < podWeight/decayEvery {
			delete(l.shapes, key)
		}
	}
}

// dropLightest drops the shape with the least weight, but for the one that just
// came.
func (l *learner) dropLightest(keep *learntShape) {
	var lightest *learntShape
	for _, s := range l.shapes {
		if s != keep && (lightest == nil || s.weight < lightest.weight || s.weight == lightest.weight && s.key < lightest.key) {
			lightest = s
		}
	}
	delete(l.shapes, lightest.key)
}

// typical returns the commonest shapes, or nil if there are none.
func (l *learner) typical() *device.Workload {
	classes := make([]device.Class, 0, len(l.shapes))
	for _, s := range l.shapes {
		classes = append(classes, device.Class{Shape: s.shape, Weight: s.weight})
	}
	if len(classes) == 0 {
		return nil
	}
	all, err := device.NewWorkload(classes)
	if err != nil {
		return nil // shapes come from parsed requests, and weights are bounded
	}
	typical := all.Typical(learntPercent)
	if classes = typical.Classes(); len(classes) > maxTypical {
		if typical, err = device.NewWorkload(classes[:maxTypical]); err != nil {
			return nil
		}
	}
	return typical.Sampled(podWeight)
}
