// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

// learner is a histogram of what pods ask for (device.Histogram). Pods that ask for
// no device are left out.
//
// It counts a pod when it is first about to be scheduled, in the scheduling
// goroutine and nowhere else: the same pods in the same order give the same
// workload, whatever informers do meanwhile. What was learnt is not stored
// anywhere. At the start the pods that are on the nodes stand for it, the oldest
// first.
type learner struct {
	histogram device.Histogram
	restored  bool

	// mu guards seen, from which the informer's handler removes.
	mu   sync.Mutex
	seen map[types.UID]struct{}
}

func newLearner() *learner {
	return &learner{seen: map[types.UID]struct{}{}}
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
func (w *workload) learn(pl *GPUDevice, pod *corev1.Pod, podRequest device.PodRequest, nodes []fwk.NodeInfo) {
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
		due = l.histogram.Add(device.ShapeOf(podRequest)) || due
	}
	if !due {
		return
	}
	if expected := l.histogram.Workload(); expected != nil {
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
			request, err := device.ParsePod(pod, pl.nodeKeys)
			if err != nil || len(request.Containers) == 0 {
				continue
			}
			shape := device.ShapeOf(device.PodRequest{Request: request, CPUMilli: cpuMilli(pod)})
			pods = append(pods, running{created: pod.CreationTimestamp, uid: pod.UID, shape: shape})
		}
	}
	slices.SortFunc(pods, func(a, b running) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.uid, b.uid))
	})
	for _, pod := range pods {
		if l.isNew(pod.uid) {
			l.histogram.Add(pod.shape)
			due = true
		}
	}
	return due
}
