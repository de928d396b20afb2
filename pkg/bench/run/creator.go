// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// createWorkers is how many creations, and deleteWorkers how many deletions, are
	// under way at a time: enough to keep an API server busy.
	createWorkers = 32
	deleteWorkers = 8
)

// creator creates pods at their times.
type creator struct {
	client kubernetes.Interface
	pods   []*corev1.Pod
	// at are the times from the start; nil for as fast as the client may.
	at []time.Duration

	// sent and answered are when each pod's creation was sent and answered, zero if it
	// was not; each is written by one goroutine, and may be read when run has returned.
	sent, answered []time.Time
}

// run creates all pods and returns when the last creation is answered. started is
// called with the time from which at counts.
func (c *creator) run(ctx context.Context, started func(time.Time)) error {
	c.sent, c.answered = make([]time.Time, len(c.pods)), make([]time.Time, len(c.pods))
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(createWorkers)
	start := time.Now()
	started(start)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range c.pods {
		if c.at != nil {
			timer.Reset(time.Until(start.Add(c.at[i])))
			select {
			case <-timer.C:
			case <-creating.Done():
			}
		}
		if creating.Err() != nil {
			break
		}
		group.Go(func() error { return c.create(creating, i) })
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// create creates one pod.
func (c *creator) create(ctx context.Context, i int) error {
	pod := c.pods[i]
	c.sent[i] = time.Now()
	_, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	c.answered[i] = time.Now()
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	return nil
}

// lateness is how far behind its plan the worst creation was, of those that were sent.
func (c *creator) lateness(start time.Time) time.Duration {
	var worst time.Duration
	for i := range c.at {
		if !c.sent[i].IsZero() {
			worst = max(worst, c.sent[i].Sub(start)-c.at[i])
		}
	}
	return worst
}

// deleter deletes pods when their lifetimes are over.
type deleter struct {
	client    kubernetes.Interface
	pods      []*corev1.Pod
	lifetimes []time.Duration
	// deadline is the end of the round: what would be deleted later is not waited for.
	deadline time.Time

	mu      sync.Mutex
	leaving int
	failure error
}

// run deletes each pod of bound, by its index, a lifetime after it came. It returns
// when ctx ends and nothing is under way.
func (r *deleter) run(ctx context.Context, bound <-chan int) {
	due := make(chan int)
	var workers sync.WaitGroup
	for range deleteWorkers {
		workers.Go(func() {
			for {
				select {
				case i := <-due:
					r.remove(ctx, i)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			workers.Wait()
			return
		case i := <-bound:
			if i >= len(r.lifetimes) || r.lifetimes[i] == 0 || time.Now().Add(r.lifetimes[i]).After(r.deadline) {
				continue
			}
			r.count(1)
			time.AfterFunc(r.lifetimes[i], func() {
				select {
				case due <- i:
				case <-ctx.Done():
				}
			})
		}
	}
}

// remove deletes a pod at once: the room that it leaves is there when the API server
// says so.
func (r *deleter) remove(ctx context.Context, i int) {
	pod := r.pods[i]
	err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		r.mu.Lock()
		r.failure = errors.Join(r.failure, fmt.Errorf("deleting pod %s: %w", pod.Name, err))
		r.mu.Unlock()
	}
	r.count(-1)
}

func (r *deleter) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving += n
}

// status returns how many pods will be deleted within the round, and what went wrong.
func (r *deleter) status() (leaving int, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving, r.failure
}
