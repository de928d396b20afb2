// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// Changes of Services, EndpointSlices and namespaces, for which the scheduling queue
// has no hints: see the package comment. The handlers of the informers only bring the
// index up to date and name what has changed; whom that helps is found beside them,
// once for however many changes came meanwhile.

// changed is a set of what has changed. The zero value is empty.
type changed struct {
	mu sync.Mutex
	// keys are what nobody has looked at yet, and running is whether somebody does.
	keys    map[waitsFor]struct{}
	running bool
}

// add adds a key, and reports whether somebody has to begin to look.
func (c *changed) add(key waitsFor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = map[waitsFor]struct{}{}
	}
	c.keys[key] = struct{}{}
	begin := !c.running
	c.running = true
	return begin
}

// take empties the set. When there is nothing in it, nobody looks any more.
func (c *changed) take() map[waitsFor]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys
	c.keys = nil
	c.running = len(keys) > 0
	return keys
}

// serviceChanged takes over a change of a Service.
func (s *instanceState) serviceChanged(logger klog.Logger, old, updated *corev1.Service) {
	at := updated
	if at == nil {
		at = old
	}
	s.index.SyncService(at.Namespace, at.Name)
	s.wakeLater(logger, waitsFor{at.Namespace, at.Name})
}

// endpointsChanged takes over a change of an EndpointSlice.
func (s *instanceState) endpointsChanged(logger klog.Logger, old, updated *discoveryv1.EndpointSlice) {
	for _, slice := range []*discoveryv1.EndpointSlice{old, updated} {
		if slice == nil {
			continue
		}
		s.index.SyncEndpointSlice(slice.Namespace, slice.Name)
		if service := slice.Labels[discoveryv1.LabelServiceName]; service != "" {
			s.wakeLater(logger, waitsFor{slice.Namespace, service})
		}
	}
}

// namespaceChanged takes over a change of a namespace, whose labels rules may read.
func (s *instanceState) namespaceChanged(logger klog.Logger, _, updated *corev1.Namespace) {
	if updated != nil {
		s.wakeLater(logger, waitsFor{namespace: updated.Name})
	}
}

// wakeLater wakes the pods that a change of the key helps, in another goroutine.
func (s *instanceState) wakeLater(logger klog.Logger, key waitsFor) {
	if !s.changed.add(key) {
		return
	}
	go func() {
		for keys := s.changed.take(); len(keys) > 0; keys = s.changed.take() {
			for key := range keys {
				for _, r := range s.helped(key) {
					s.wake(logger, r)
				}
			}
		}
	}()
}

// helped returns the refused pods that wait for the key, are not going to be woken
// yet, and have another answer now.
func (s *instanceState) helped(key waitsFor) []*refusal {
	var helped []*refusal
	known := newer{}
	for _, r := range s.pending.waiting(key) {
		if !r.waking.Load() && r.answeredOtherwise(known) {
			helped = append(helped, r)
		}
	}
	return helped
}

// recordRefusal takes note of a refusal. What has changed since the index answered
// found no such note, so it is looked at now.
func (pl *Colocation) recordRefusal(ctx context.Context, r *refusal) {
	s := pl.instance
	s.pending.refuse(r, s.clock.Now())
	if r.answeredOtherwise(newer{}) {
		s.wake(klog.FromContext(ctx), r)
	}
}

// wake sends the pod back to the active queue, once, when its backoff is over and if
// the answer is still another one then. The queue remembers it for a pod that is
// being scheduled at this moment.
func (s *instanceState) wake(logger klog.Logger, r *refusal) {
	if !r.waking.CompareAndSwap(false, true) {
		return
	}
	if wait := r.until.Sub(s.clock.Now()); wait > 0 {
		s.clock.AfterFunc(wait, func() { s.wakeNow(logger, r) })
		return
	}
	s.wakeNow(logger, r)
}

func (s *instanceState) wakeNow(logger klog.Logger, r *refusal) {
	// First: a change that comes while this looks is looked at by somebody else.
	r.waking.Store(false)
	if s.pending.refusal(r.pod.UID) != r || !r.answeredOtherwise(newer{}) || !r.waking.CompareAndSwap(false, true) {
		return
	}
	logger.V(5).Info("Waking a pod that waits for a Service or a namespace", "pod", klog.KObj(r.pod))
	r.pl.handle.Activate(logger, map[string]*corev1.Pod{klog.KObj(r.pod).String(): r.pod})
}

// newer remembers which view holds a value that another did not, while many pods that
// saw the same are looked at.
type newer map[viewPair]bool

type viewPair struct {
	before, now *peers.View
	key         string
}

func (n newer) holdsNew(q *requirement, now *peers.View) bool {
	pair := viewPair{q.view, now, q.key}
	holds, ok := n[pair]
	if !ok {
		holds = now.HoldsNew(q.view, q.key)
		n[pair] = holds
	}
	return holds
}

// answeredOtherwise reports whether the pod may have a node now for which it had none
// by what the index answered in its last attempt: other rules apply to it, or all that
// it requires can be met, and something of it where it could not.
func (r *refusal) answeredOtherwise(known newer) bool {
	if r.malformed {
		return false // until the pod itself changes
	}
	if r.pl.policy.usesNamespaces {
		applying, err := r.pl.policy.applying(r.pod, r.pl.instance.namespaceLabels)
		if r.understood != (err == nil) || !slices.Equal(applying, r.request.rules) {
			return true
		}
	}
	better := false
	for i := range r.required {
		q := &r.required[i]
		now := r.pl.viewOf(r.pod, q)
		if !satisfiable(now, q.key, r.pod) {
			return false
		}
		first := isFirst(now, q.key, r.pod)
		better = better || first && !q.first || !first && !q.first && known.holdsNew(q, now)
	}
	return better
}

// viewOf returns what the index answers now of a requirement; nil if there is no
// Service that lets the pod near it.
func (pl *Colocation) viewOf(pod *corev1.Pod, q *requirement) *peers.View {
	view, _ := pl.instance.index.Lookup(pod.Namespace, q.namespace, q.name, q.key)
	return view
}

// requestOf returns what the pod asks for, read once for each version of the pod. The
// error is as of policy.requestOf.
func (pl *Colocation) requestOf(pod *corev1.Pod) (request, error) {
	if len(pl.policy.rules) == 0 && !asksByAnnotations(pod) {
		return request{}, nil
	}
	if r, ok, err := pl.instance.pending.read(pod, pl.namespaceVersion(pod)); ok {
		return r, err
	}
	return pl.policy.requestOf(pod, pl.instance.namespaceLabels)
}

// namespaceVersion returns the version of the pod's namespace if a rule reads it, and
// nothing otherwise.
func (pl *Colocation) namespaceVersion(pod *corev1.Pod) string {
	if !pl.policy.usesNamespaces {
		return ""
	}
	namespace, err := pl.instance.namespaces.Get(pod.Namespace)
	if err != nil {
		return ""
	}
	return string(namespace.UID) + "/" + namespace.ResourceVersion
}
