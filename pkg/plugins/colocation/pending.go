// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pendingPods is what is remembered of the pods without a node that ask for
// something, and of why they were refused. The zero value has none.
type pendingPods struct {
	mu sync.Mutex
	// All that follows is guarded by mu.

	pods map[types.UID]*pendingPod
	// under has those that the plugin has refused, by what may help them.
	under map[waitsFor]map[types.UID]*refusal

	// refusals has the same by UID, for queueing hints: they take no lock.
	refusals sync.Map
}

// pendingPod is what a pod asks for, as it was read of one version of it.
type pendingPod struct {
	pod *corev1.Pod
	// namespaceVersion is that of its namespace, if a rule reads its labels.
	namespaceVersion string
	request          request
	err              error
	// attempts counts the scheduling attempts.
	attempts int
}

// refusal is that the plugin refused a pod in its last attempt, and for what. Only
// such a pod is woken, and only by what may change the answer.
type refusal struct {
	pl       *Colocation
	pod      *corev1.Pod
	request  request
	required []requirement
	// understood is false where it is not known what the pod asks for: neither
	// another pod nor a node can help it then. malformed is why, if it is not because
	// its namespace is not known.
	understood, malformed bool
	// until is the time before which the pod backs off.
	until time.Time
	// waking is whether it is going to be woken.
	waking atomic.Bool
}

// waitsFor is a Service; with an empty name, the labels of a namespace.
type waitsFor struct{ namespace, name string }

// keys returns what may help the pod beside pods and nodes.
func (r *refusal) keys() []waitsFor {
	var keys []waitsFor
	if r.pl.policy.usesNamespaces && !r.malformed {
		keys = append(keys, waitsFor{namespace: r.pod.Namespace})
	}
	for i := range r.required {
		keys = append(keys, waitsFor{r.required[i].namespace, r.required[i].name})
	}
	return keys
}

// read returns what the pod asks for if it was read of this version of it.
func (p *pendingPods) read(pod *corev1.Pod, namespaceVersion string) (r request, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[pod.UID]
	if known == nil || known.namespaceVersion != namespaceVersion ||
		known.pod != pod && (pod.ResourceVersion == "" || known.pod.ResourceVersion != pod.ResourceVersion) {
		return request{}, false, nil
	}
	return known.request, true, known.err
}

// attempt takes note that the pod is being scheduled, and what it asks for. What it
// was refused for before is over.
func (p *pendingPods) attempt(pod *corev1.Pod, namespaceVersion string, r request, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acceptLocked(pod.UID)
	attempts := 1
	if known := p.pods[pod.UID]; known != nil {
		attempts = known.attempts + 1
	}
	if p.pods == nil {
		p.pods = map[types.UID]*pendingPod{}
	}
	p.pods[pod.UID] = &pendingPod{pod: pod, namespaceVersion: namespaceVersion, request: r, err: err, attempts: attempts}
}

// refuse takes note of what a pod was refused for.
func (p *pendingPods) refuse(r *refusal, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[r.pod.UID]
	if known == nil {
		return // gone meanwhile
	}
	p.acceptLocked(r.pod.UID)
	r.until = now.Add(backoff(known.attempts))
	p.refusals.Store(r.pod.UID, r)
	if p.under == nil {
		p.under = map[waitsFor]map[types.UID]*refusal{}
	}
	for _, key := range r.keys() {
		if p.under[key] == nil {
			p.under[key] = map[types.UID]*refusal{}
		}
		p.under[key][r.pod.UID] = r
	}
}

// accept takes note that it was not this plugin that refused the pod.
func (p *pendingPods) accept(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acceptLocked(uid)
}

func (p *pendingPods) acceptLocked(uid types.UID) {
	r := p.refusal(uid)
	if r == nil {
		return
	}
	p.refusals.Delete(uid)
	for _, key := range r.keys() {
		delete(p.under[key], uid)
		if len(p.under[key]) == 0 {
			delete(p.under, key)
		}
	}
}

// remove forgets a pod.
func (p *pendingPods) remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acceptLocked(uid)
	delete(p.pods, uid)
}

// refusal returns what the pod was refused for in its last attempt; nil if it was
// not this plugin that refused it. It takes no lock.
func (p *pendingPods) refusal(uid types.UID) *refusal {
	found, ok := p.refusals.Load(uid)
	if !ok {
		return nil
	}
	r, _ := found.(*refusal)
	return r
}

// waiting returns what was refused that a change of the key may help.
func (p *pendingPods) waiting(key waitsFor) []*refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused := make([]*refusal, 0, len(p.under[key]))
	for _, r := range p.under[key] {
		refused = append(refused, r)
	}
	return refused
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
