// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// Which waiting pods an event can help, and waking those that a Service, an
// EndpointSlice or a namespace helps, for which the scheduling queue has no hints: see
// the package comment.

// waitingPods is what is remembered of the pods without a node that ask for
// something, and of why they were rejected. The zero value has none.
type waitingPods struct {
	mu sync.Mutex
	// All that follows is guarded by mu.

	pods map[types.UID]*waitingPod
	// rejected has those that the plugin has rejected, by what may help them.
	rejected map[waitKey]map[types.UID]*rejection
	// changed are the keys that have changed since the pods that they may help were
	// looked at, and looking is whether a goroutine does.
	changed map[waitKey]struct{}
	looking bool
}

// waitingPod is what a pod asks for, as it was read of one version of it.
type waitingPod struct {
	pod *corev1.Pod
	// namespaceVersion is that of its namespace, if a rule reads its labels.
	namespaceVersion string
	request          request
	err              error
	// attempts counts the scheduling attempts.
	attempts int
	// rejection is nil if it was not this plugin that rejected it in the last one.
	rejection *rejection
	// warning is what its author was told of that has no effect.
	warning string
}

// waitKey is a Service; with an empty name, the labels of a namespace.
type waitKey struct{ namespace, name string }

// rejection is that the plugin rejected a pod in its last attempt, and for what. Only
// such a pod is woken, and only by what may change the answer.
type rejection struct {
	pl *Colocation
	// pod is the pod of that attempt: see current.
	pod *corev1.Pod
	// rules are those that applied to it, and required what it requires, as the index
	// answered then.
	rules    []int
	required []requirement
	// understood is false where it is not known what the pod asks for: neither
	// another pod nor a node can help it then. malformed is why, if it is not because
	// its namespace is not known.
	understood, malformed bool
	// until is the time before which the pod backs off.
	until time.Time
	// activating is whether it is going to be woken.
	activating atomic.Bool
}

// keys returns what may help the pod beside pods and nodes.
func (r *rejection) keys() []waitKey {
	var keys []waitKey
	if r.pl.policy.usesNamespaces && !r.malformed {
		keys = append(keys, waitKey{namespace: r.pod.Namespace})
	}
	for i := range r.required {
		keys = append(keys, waitKey{r.required[i].namespace, r.required[i].name})
	}
	return keys
}

// current returns the pod as it is now, whose labels may be others than in the attempt.
func (r *rejection) current() *corev1.Pod {
	pod, err := r.pl.instance.pods.Pods(r.pod.Namespace).Get(r.pod.Name)
	if err != nil || pod.UID != r.pod.UID {
		return r.pod
	}
	return pod
}

// currentRequirement returns the requirement of a pod as the index answers now.
func (s *instanceState) currentRequirement(pod *corev1.Pod, q *requirement) requirement {
	view, _ := s.index.Lookup(pod.Namespace, q.namespace, q.name, q.key)
	return newRequirement(view, q.namespace, q.name, q.key, pod)
}

// peerChange reports whether a change from was to now of the peers that a pod requires lets
// it have a node for which it had none.
type peerChange func(was, now *requirement) bool

// isSchedulableAfter reports whether the pod may have a node now for which it had none in its
// last attempt: all that it requires can be met, and of something that it requires it
// is the first of its group now, or there is a change that helps. The pod itself may
// have changed too.
func (r *rejection) isSchedulableAfter(change peerChange) bool {
	pod, helped := r.current(), false
	for i := range r.required {
		was := &r.required[i]
		now := r.pl.instance.currentRequirement(pod, was)
		if !now.satisfiable() {
			return false
		}
		helped = helped || !was.first && (now.first || change(was, &now))
	}
	return helped
}

// waitsForAny reports whether the pod requires to be near one of the Services.
func (r *rejection) waitsForAny(services []waitKey) bool {
	return len(services) > 0 && slices.ContainsFunc(r.required, func(q requirement) bool {
		return slices.Contains(services, waitKey{q.namespace, q.name})
	})
}

func noPeerChange(_, _ *requirement) bool { return false }

// peersOn is a change of the peers on the node of this name, empty for none: it helps
// where the node is, if there was no peer.
func (s *instanceState) peersOn(node string) peerChange {
	return func(was, now *requirement) bool {
		value, ok := s.index.NodeLabel(node, now.key)
		return ok && now.holds(value) && !was.holds(value)
	}
}

// peersAnywhere is a change of a Service's peers, which helps where there was none. It
// remembers what it has compared while many pods that saw the same are looked at.
func peersAnywhere() peerChange {
	type views struct {
		was, now *peers.View
		key      string
	}
	known := map[views]bool{}
	return func(was, now *requirement) bool {
		compared := views{was.view, now.view, now.key}
		holds, ok := known[compared]
		if !ok {
			holds = now.view.HoldsNew(was.view, now.key)
			known[compared] = holds
		}
		return holds
	}
}

// isSchedulableAfterNode reports whether a change of a node from old to updated, either nil,
// may help the pod: peers on it count elsewhere, or it is acceptable and was not.
func (r *rejection) isSchedulableAfterNode(old, updated *corev1.Node) bool {
	name := ""
	if updated != nil {
		name = updated.Name
	}
	if r.isSchedulableAfter(r.pl.instance.peersOn(name)) {
		return true
	}
	if updated == nil || len(r.required) == 0 {
		return false
	}
	pod, wasAccepted := r.current(), old != nil
	for i := range r.required {
		was := &r.required[i]
		if now := r.pl.instance.currentRequirement(pod, was); !now.accepts(updated.Labels) {
			return false
		}
		wasAccepted = wasAccepted && was.accepts(old.Labels)
	}
	return !wasAccepted
}

// isSchedulableAfterService reports whether the pod is to be tried again, wherever the peers
// of its Services are: other rules apply to it, isSchedulableAfter anywhere (a
// peersAnywhere), or a Service that it requires was missing and exists now. The last is
// for the pod's author: a pod and its Service are often created together, and if the
// scheduler sees the pod first, its event must not go on to say that there is no Service.
func (r *rejection) isSchedulableAfterService(anywhere peerChange) bool {
	if r.malformed {
		return false // until the pod itself changes
	}
	if r.pl.policy.usesNamespaces {
		rules, err := r.pl.policy.matchingRules(r.current(), r.pl.instance.namespaceLabels)
		if r.understood != (err == nil) || !slices.Equal(rules, r.rules) {
			return true
		}
	}
	return r.serviceAppeared() || r.isSchedulableAfter(anywhere)
}

// serviceAppeared reports whether a Service that the pod requires to be near was missing in
// its last attempt, or did not let the pod near it, and does now.
func (r *rejection) serviceAppeared() bool {
	pod := r.current()
	return slices.ContainsFunc(r.required, func(was requirement) bool {
		return was.view == nil && r.pl.instance.currentRequirement(pod, &was).view != nil
	})
}

// read returns what the pod asks for if it was read of this version of it.
func (w *waitingPods) read(pod *corev1.Pod, namespaceVersion string) (r request, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[pod.UID]
	if known == nil || known.namespaceVersion != namespaceVersion ||
		known.pod != pod && (pod.ResourceVersion == "" || known.pod.ResourceVersion != pod.ResourceVersion) {
		return request{}, false, nil
	}
	return known.request, true, known.err
}

// attempt records that the pod is being scheduled, and what it asks for. What it
// was rejected for before is over.
func (w *waitingPods) attempt(pod *corev1.Pod, namespaceVersion string, r request, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[pod.UID]
	if known == nil {
		known = &waitingPod{}
		if w.pods == nil {
			w.pods = map[types.UID]*waitingPod{}
		}
		w.pods[pod.UID] = known
	}
	w.setRejection(known, nil)
	known.pod, known.namespaceVersion, known.request, known.err = pod, namespaceVersion, r, err
	known.attempts++
}

// addWarning records the warning to the author of the pod, and reports whether it is new.
func (w *waitingPods) addWarning(uid types.UID, note string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[uid]
	if known == nil || known.warning == note {
		return false
	}
	known.warning = note
	return note != ""
}

// reject records what a pod was rejected for.
func (w *waitingPods) reject(r *rejection, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[r.pod.UID]; known != nil { // nil if it is gone meanwhile
		r.until = now.Add(backoff(known.attempts))
		w.setRejection(known, r)
	}
}

// accept records that it was not this plugin that rejected the pod.
func (w *waitingPods) accept(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		w.setRejection(known, nil)
	}
}

// remove forgets a pod.
func (w *waitingPods) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		w.setRejection(known, nil)
		delete(w.pods, uid)
	}
}

// setRejection puts one rejection of a pod into the place of another, either nil. mu is
// held.
func (w *waitingPods) setRejection(known *waitingPod, r *rejection) {
	if known.rejection != nil {
		for _, key := range known.rejection.keys() {
			if delete(w.rejected[key], known.pod.UID); len(w.rejected[key]) == 0 {
				delete(w.rejected, key)
			}
		}
	}
	known.rejection = r
	if r == nil {
		return
	}
	if w.rejected == nil {
		w.rejected = map[waitKey]map[types.UID]*rejection{}
	}
	for _, key := range r.keys() {
		if w.rejected[key] == nil {
			w.rejected[key] = map[types.UID]*rejection{}
		}
		w.rejected[key][r.pod.UID] = r
	}
}

// rejectionOf returns what the pod was rejected for in its last attempt; nil if it was
// not this plugin that rejected it.
func (w *waitingPods) rejectionOf(uid types.UID) *rejection {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[uid]; known != nil {
		return known.rejection
	}
	return nil
}

// of returns the rejections that a change of the key may help.
func (w *waitingPods) of(key waitKey) []*rejection {
	w.mu.Lock()
	defer w.mu.Unlock()
	rejections := make([]*rejection, 0, len(w.rejected[key]))
	for _, r := range w.rejected[key] {
		rejections = append(rejections, r)
	}
	return rejections
}

// addChanged adds a key that has changed, and reports whether the caller has to begin to
// look.
func (w *waitingPods) addChanged(key waitKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = map[waitKey]struct{}{}
	}
	w.changed[key] = struct{}{}
	begin := !w.looking
	w.looking = true
	return begin
}

// takeChanged returns the keys that have changed. When there is none, looking is
// over.
func (w *waitingPods) takeChanged() map[waitKey]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := w.changed
	w.changed = nil
	w.looking = len(keys) > 0
	return keys
}

// serviceChanged takes over a change of a Service. Like the other handlers of
// informers, it only brings the index up to date and names what has changed; whom that
// helps is found beside it, once for however many changes came meanwhile.
func (s *instanceState) serviceChanged(logger klog.Logger, old, updated *corev1.Service) {
	at := updated
	if at == nil {
		at = old
	}
	s.index.SyncService(at.Namespace, at.Name)
	s.activateLater(logger, waitKey{at.Namespace, at.Name})
}

// endpointsChanged takes over a change of an EndpointSlice.
func (s *instanceState) endpointsChanged(logger klog.Logger, old, updated *discoveryv1.EndpointSlice) {
	for _, slice := range []*discoveryv1.EndpointSlice{old, updated} {
		if slice == nil {
			continue
		}
		s.index.SyncEndpointSlice(slice.Namespace, slice.Name)
		if service := slice.Labels[discoveryv1.LabelServiceName]; service != "" {
			s.activateLater(logger, waitKey{slice.Namespace, service})
		}
	}
}

// namespaceChanged takes over a change of a namespace, whose labels rules may read.
func (s *instanceState) namespaceChanged(logger klog.Logger, _, updated *corev1.Namespace) {
	if updated != nil {
		s.activateLater(logger, waitKey{namespace: updated.Name})
	}
}

// activateLater wakes the pods that a change of the key helps, in another goroutine.
func (s *instanceState) activateLater(logger klog.Logger, key waitKey) {
	if !s.waiting.addChanged(key) {
		return
	}
	go func() {
		for keys := s.waiting.takeChanged(); len(keys) > 0; keys = s.waiting.takeChanged() {
			for key := range keys {
				for _, r := range s.schedulable(key) {
					s.activate(logger, r)
				}
			}
		}
	}()
}

// schedulable returns the rejections of pods that wait for the key, are not going to be
// woken yet, and have another answer now.
func (s *instanceState) schedulable(key waitKey) []*rejection {
	anywhere := peersAnywhere()
	return slices.DeleteFunc(s.waiting.of(key), func(r *rejection) bool {
		return r.activating.Load() || !r.isSchedulableAfterService(anywhere)
	})
}

// recordRejection records a rejection. What has changed since the index answered
// found no such record, so it is looked at now.
func (s *instanceState) recordRejection(logger klog.Logger, r *rejection) {
	s.waiting.reject(r, s.clock.Now())
	if r.isSchedulableAfterService(peersAnywhere()) {
		s.activate(logger, r)
	}
}

// activate sends the pod back to the active queue, once, when its backoff is over and if
// the answer is still another one then. The queue remembers it for a pod that is
// being scheduled at this moment.
func (s *instanceState) activate(logger klog.Logger, r *rejection) {
	if !r.activating.CompareAndSwap(false, true) {
		return
	}
	if wait := r.until.Sub(s.clock.Now()); wait > 0 {
		s.clock.AfterFunc(wait, func() { s.activateNow(logger, r) })
		return
	}
	s.activateNow(logger, r)
}

func (s *instanceState) activateNow(logger klog.Logger, r *rejection) {
	// First: a change that comes while this looks is looked at by another goroutine.
	r.activating.Store(false)
	if s.waiting.rejectionOf(r.pod.UID) != r || !r.isSchedulableAfterService(peersAnywhere()) || !r.activating.CompareAndSwap(false, true) {
		return
	}
	logger.V(5).Info("Waking a pod that waits for a Service or a namespace", "pod", klog.KObj(r.pod))
	r.pl.handle.Activate(logger, map[string]*corev1.Pod{klog.KObj(r.pod).String(): r.current()})
}

// The scheduling queue's backoff, by default: a plugin is not told of another
// podInitialBackoffSeconds or podMaxBackoffSeconds.
const (
	initialBackoff = time.Second
	maxBackoff     = 10 * time.Second
)

// backoff returns for how long the queue holds a pod back after so many attempts.
func backoff(attempts int) time.Duration {
	duration := initialBackoff
	for range attempts - 1 {
		if duration *= 2; duration >= maxBackoff {
			return maxBackoff
		}
	}
	return duration
}

// requestOf returns what the pod asks for, read once for each version of the pod. The
// error is as of policy.requestOf.
func (pl *Colocation) requestOf(pod *corev1.Pod) (request, error) {
	if len(pl.policy.rules) == 0 && !hasAnnotations(pod) {
		return request{}, nil
	}
	if r, ok, err := pl.instance.waiting.read(pod, pl.namespaceVersion(pod)); ok {
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
