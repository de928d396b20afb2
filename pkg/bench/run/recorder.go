// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// recorder watches the pods of a namespace and notes when each got its node. Only
// the goroutine of its watch writes; everybody else reads what it has noted.
//
// Pods that are not in its index, such as those that probe a scheduler, are passed
// over.
type recorder struct {
	// index has the place of each pod's record, by name. It is not changed.
	index map[string]int
	// bindings gets the index of each pod that is bound, once. It has room for all, so
	// that the watch never waits.
	bindings chan int
	// check says whether a pod may be on its node; nil: on any. It is set before watch.
	check func(*corev1.Pod) error
	// ready is closed when the first list has come.
	ready chan struct{}

	mu      sync.Mutex
	records []record
	counts  counts
	lists   int
	// misplacedErr is what check has said, if it has.
	misplacedErr error
}

var _ cache.ReflectorStore = &recorder{}

// record is what is known about a pod.
type record struct {
	// pod is the newest state, nil before the first event.
	pod *corev1.Pod
	// seen and bound are when the first event came, and the first with a node.
	seen, bound time.Time
	// refused is whether the scheduler has said that it finds no node, and gone whether
	// the pod was deleted.
	refused, gone bool
}

// counts sum the records up.
type counts struct {
	// seen, bound and gone count pods that exist or existed, have or had a node, and
	// were deleted; gone without a node count in lost too.
	seen, bound, gone, lost int
	// refused counts the pods without a node that their scheduler has refused and that
	// are not gone.
	refused int
	// last is when one of these changed.
	last time.Time
}

// newRecorder returns a recorder of the pods with these names.
func newRecorder(pods []string) *recorder {
	r := &recorder{
		index:    make(map[string]int, len(pods)),
		bindings: make(chan int, len(pods)),
		ready:    make(chan struct{}),
		records:  make([]record, len(pods)),
	}
	for i, name := range pods {
		r.index[name] = i
	}
	return r
}

// watch records until ctx ends. It returns when the first list has come.
func (r *recorder) watch(ctx context.Context, client kubernetes.Interface, namespace string) error {
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, fields.Everything())
	reflector := cache.NewReflectorWithOptions(pods, &corev1.Pod{}, r, cache.ReflectorOptions{Name: "bench"})
	go reflector.RunWithContext(ctx)
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Add implements cache.ReflectorStore.
func (r *recorder) Add(object any) error { return r.note(object, false) }

// Update implements cache.ReflectorStore.
func (r *recorder) Update(object any) error { return r.note(object, false) }

// Delete implements cache.ReflectorStore.
func (r *recorder) Delete(object any) error { return r.note(object, true) }

// Resync implements cache.ReflectorStore; there is nothing to do.
func (r *recorder) Resync() error { return nil }

// Replace implements cache.ReflectorStore: the first list, and one more whenever the
// watch was lost.
func (r *recorder) Replace(objects []any, _ string) error {
	var errs []error
	present := make(map[string]bool, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			present[pod.Name] = true
		}
		errs = append(errs, r.note(object, false))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, i := range r.index {
		if record := &r.records[i]; record.pod != nil && !record.gone && !present[name] {
			r.forget(record, time.Now())
		}
	}
	if r.lists++; r.lists == 1 {
		close(r.ready)
	}
	return errors.Join(errs...)
}

// note takes in a new state of a pod.
func (r *recorder) note(object any, deleted bool) error {
	now := time.Now()
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("%T is no pod", object)
	}
	i, ok := r.index[pod.Name]
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	record := &r.records[i]
	if record.pod == nil {
		record.seen = now
		r.counts.seen++
		r.counts.last = now
	}
	record.pod = pod
	switch {
	case deleted:
		r.forget(record, now)
	case pod.Spec.NodeName != "" && record.bound.IsZero():
		record.bound = now
		r.counts.bound++
		r.counts.last = now
		r.refuse(record, false, now)
		if r.check != nil && r.misplacedErr == nil {
			r.misplacedErr = r.check(pod)
		}
		r.bindings <- i
	case pod.Spec.NodeName == "":
		r.refuse(record, refusal(pod) != nil, now)
	}
	return nil
}

// forget notes that a pod is gone. The caller holds mu.
func (r *recorder) forget(record *record, now time.Time) {
	if record.gone {
		return
	}
	record.gone = true
	r.counts.gone++
	r.counts.last = now
	r.refuse(record, false, now)
	if record.bound.IsZero() {
		r.counts.lost++
	}
}

// refuse notes whether a pod is refused. The caller holds mu.
func (r *recorder) refuse(record *record, refused bool, now time.Time) {
	if refused == record.refused {
		return
	}
	if record.refused = refused; refused {
		r.counts.refused++
	} else {
		r.counts.refused--
	}
	r.counts.last = now
}

// progress returns the counts.
func (r *recorder) progress() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// misplaced returns what is wrong with the first pod that is on a node where it may not
// be; nil if there is none.
func (r *recorder) misplaced() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.misplacedErr
}

// result returns the records, which must not be changed, and how often the watch was
// lost: what happened then was seen late.
func (r *recorder) result() (records []record, losses int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]record(nil), r.records...), r.lists - 1
}

// refusal returns the condition in which a scheduler says that it finds no node for
// a pod; nil without it.
func refusal(pod *corev1.Pod) *corev1.PodCondition {
	if _, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); condition != nil && condition.Status == corev1.ConditionFalse {
		return condition
	}
	return nil
}
