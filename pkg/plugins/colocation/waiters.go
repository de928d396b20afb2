// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// waiters knows the pending pods that a change of a Service, of its EndpointSlices
// or of a namespace may help: those that the plugin has refused, or may have. The
// zero value has none.
type waiters struct {
	mu sync.Mutex
	// pods by UID, and what each is noted down under.
	pods map[types.UID]*waiter
	// under has the UIDs by what they wait for.
	under map[waitsFor]map[types.UID]struct{}
}

type waiter struct {
	pod  *corev1.Pod
	keys []waitsFor
}

// waitsFor is a Service; with an empty name, the labels of a namespace.
type waitsFor struct{ namespace, name string }

// set notes the pod down under the keys, and under no others.
func (w *waiters) set(pod *corev1.Pod, keys []waitsFor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.pods[pod.UID]; ok && slices.Equal(known.keys, keys) {
		known.pod = pod
		return
	}
	w.removeLocked(pod.UID)
	if len(keys) == 0 {
		return
	}
	if w.pods == nil {
		w.pods, w.under = map[types.UID]*waiter{}, map[waitsFor]map[types.UID]struct{}{}
	}
	w.pods[pod.UID] = &waiter{pod: pod, keys: keys}
	for _, key := range keys {
		if w.under[key] == nil {
			w.under[key] = map[types.UID]struct{}{}
		}
		w.under[key][pod.UID] = struct{}{}
	}
}

// remove forgets a pod: it has a node, or is gone.
func (w *waiters) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(uid)
}

func (w *waiters) removeLocked(uid types.UID) {
	known, ok := w.pods[uid]
	if !ok {
		return
	}
	delete(w.pods, uid)
	for _, key := range known.keys {
		delete(w.under[key], uid)
		if len(w.under[key]) == 0 {
			delete(w.under, key)
		}
	}
}

// of returns the pods that are noted down under the key.
func (w *waiters) of(key waitsFor) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []*corev1.Pod
	for uid := range w.under[key] {
		pods = append(pods, w.pods[uid].pod)
	}
	return pods
}

// wake sends the pods that wait for the key, and whose namespace is let near what it
// names, back to the active queue of their profile. The queue remembers it for a pod that is being scheduled at this
// moment.
func (s *instanceState) wake(logger klog.Logger, key waitsFor, allowed func(namespace string) bool) {
	byProfile := map[string]map[string]*corev1.Pod{}
	for _, pod := range s.waiters.of(key) {
		if !allowed(pod.Namespace) {
			continue
		}
		if byProfile[pod.Spec.SchedulerName] == nil {
			byProfile[pod.Spec.SchedulerName] = map[string]*corev1.Pod{}
		}
		byProfile[pod.Spec.SchedulerName][klog.KObj(pod).String()] = pod
	}
	for name, pods := range byProfile {
		if handle := s.profile(name); handle != nil {
			logger.V(5).Info("Waking pods that wait for a Service or a namespace", "object", klog.KRef(key.namespace, key.name), "pods", len(pods))
			handle.Activate(logger, pods)
		}
	}
}

// podChanged takes over a change of a pod. Whom it may help, the queueing hints
// say.
func (s *instanceState) podChanged(old, updated *corev1.Pod) {
	s.index.ApplyPod(old, updated)
	if old != nil && (updated == nil || old.UID != updated.UID) {
		s.forget(old.UID)
	}
	if updated != nil && updated.Spec.NodeName != "" {
		s.forget(updated.UID)
	}
}

// forget drops what was noted down about a pod that has a node or is gone.
func (s *instanceState) forget(uid types.UID) {
	s.waiters.remove(uid)
	s.warnings.remove(uid)
}

// serviceChanged takes over a change of a Service, and wakes the pods that wait
// for it if it is about what is behind the Service or whom it lets near. A pod that
// it lets near neither before nor after is not woken: from when it is tried again,
// its author could tell that there is such a Service.
func (s *instanceState) serviceChanged(logger klog.Logger, old, updated *corev1.Service) {
	s.index.ApplyService(old, updated)
	if old != nil && updated != nil && old.UID == updated.UID && old.Spec.Type == updated.Spec.Type &&
		maps.Equal(old.Spec.Selector, updated.Spec.Selector) &&
		old.Annotations[names.AllowColocationFromAnnotation] == updated.Annotations[names.AllowColocationFromAnnotation] {
		return
	}
	at := updated
	if at == nil {
		// A Service that is gone binds nobody.
		at = old
	}
	s.wake(logger, waitsFor{at.Namespace, at.Name}, func(namespace string) bool {
		return old != nil && peers.Allows(old, namespace) || updated != nil && peers.Allows(updated, namespace)
	})
}

// endpointsChanged takes over a change of an EndpointSlice, and wakes the pods that
// wait for its Service, if it changes who is behind it: a slice is written for many
// other reasons. It wakes none that the Service does not let near.
func (s *instanceState) endpointsChanged(logger klog.Logger, old, updated *discoveryv1.EndpointSlice) {
	s.index.ApplyEndpointSlice(old, updated)
	if old != nil && updated != nil && old.UID == updated.UID && peers.SameEndpoints(old, updated) {
		return
	}
	services := map[waitsFor]struct{}{}
	for _, slice := range []*discoveryv1.EndpointSlice{old, updated} {
		if slice != nil && slice.Labels[discoveryv1.LabelServiceName] != "" {
			services[waitsFor{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}] = struct{}{}
		}
	}
	for key := range services {
		s.wake(logger, key, func(namespace string) bool { return s.index.Allows(namespace, key.namespace, key.name) })
	}
}

// namespaceChanged wakes the pods that a rule's namespaceSelector may have let go.
func (s *instanceState) namespaceChanged(logger klog.Logger, old, updated *corev1.Namespace) {
	if updated == nil || old != nil && maps.Equal(old.Labels, updated.Labels) {
		return
	}
	s.wake(logger, waitsFor{namespace: updated.Name}, func(string) bool { return true })
}
