// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchurn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// churnWorkers create and delete pods side by side.
const churnWorkers = 6

// Churn lets pods arrive and leave.
type Churn struct {
	C     *framework.Cluster
	Watch *Watch
	// Pods is how many arrive in all, and Alive how many stay at a time. Unseen is
	// how many may wait for their first attempt: pods that arrive and leave while
	// no scheduler runs show nothing.
	Pods, Alive, Unseen int
	Seed                uint64
	// Pod draws a pod that arrives. Default: RandomPod.
	Pod func(rng *rand.Rand, name string) *corev1.Pod

	// Limit is how many may have arrived by now. Below 0 it ends Run, when those that are
	// leaving are gone.
	Limit atomic.Int64

	mu sync.Mutex
	// Kept are the UIDs of the pods that were created and not deleted, by
	// namespace/name; the others are counts for the report. They are for after Run.
	Kept                             map[string]string
	Created, Deleted, Ended, Renamed int
}

// Run returns when all pods have arrived.
func (ch *Churn) Run(ctx context.Context) error {
	ch.Kept = map[string]string{}
	if ch.Pod == nil {
		ch.Pod = RandomPod
	}
	errs := make(chan error, churnWorkers)
	for worker := range churnWorkers {
		go func() { errs <- ch.work(ctx, worker) }()
	}
	var failed error
	for range churnWorkers {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// work is one worker's part.
func (ch *Churn) work(ctx context.Context, worker int) error {
	rng := rand.New(rand.NewPCG(ch.Seed, uint64(worker)))
	var alive []string
	for i := worker; i < ch.Pods; i += churnWorkers {
		err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
			if ch.Limit.Load() < 0 {
				return true, nil
			}
			unseen, _ := ch.Watch.Counts()
			return unseen < ch.Unseen && int64(ch.Arrivals()) < ch.Limit.Load(), nil
		})
		if err != nil {
			return err
		}
		if ch.Limit.Load() < 0 {
			return nil
		}
		name := fmt.Sprintf("pod-%d", i)
		if err := ch.create(ctx, ch.Pod(rng, name)); err != nil {
			return err
		}
		alive = append(alive, name)
		for len(alive) > ch.Alive/churnWorkers {
			k := rng.IntN(len(alive))
			name := alive[k]
			reborn, err := ch.leave(ctx, rng, name)
			if err != nil {
				return err
			}
			if !reborn {
				alive = append(alive[:k], alive[k+1:]...)
			} else if rng.IntN(2) == 0 {
				break
			}
		}
	}
	return nil
}

// Insist repeats a request until the API server has answered it.
func Insist(ctx context.Context, request func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*framework.WaitTimeout, true, func(context.Context) (bool, error) {
		last = request()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", err, last)
	}
	return nil
}

func (ch *Churn) create(ctx context.Context, pod *corev1.Pod) error {
	pods := ch.C.Client.CoreV1().Pods(Namespace)
	var uid types.UID
	err := Insist(ctx, func() error {
		created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			// The answer to an earlier try was lost.
			created, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		}
		if err == nil {
			uid = created.UID
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.Kept[Namespace+"/"+pod.Name] = string(uid)
	ch.Created++
	return nil
}

// leave lets a pod go in one of the ways in which pods go. reborn is whether
// another one came by its name at once.
func (ch *Churn) leave(ctx context.Context, rng *rand.Rand, name string) (reborn bool, err error) {
	pods := ch.C.Client.CoreV1().Pods(Namespace)
	ch.mu.Lock()
	uid := types.UID(ch.Kept[Namespace+"/"+name])
	delete(ch.Kept, Namespace+"/"+name)
	ch.Deleted++
	ch.mu.Unlock()
	remove := func(grace *int64) error {
		return Insist(ctx, func() error {
			err := pods.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: grace})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil // an earlier try got through
			}
			return err
		})
	}
	way := rng.IntN(4)
	switch way {
	case 0: // its containers end, and then it is deleted
		err := Insist(ctx, func() error {
			_, err := pods.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			// In some 10,000 pods there is one whose name was taken over while kube-scheduler wrote
			// the status of the one that was being deleted, with no UID in its patch: the API server
			// then finishes that deletion, and does it by name.
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return false, fmt.Errorf("ending pod %s: %w", name, err)
		}
	case 3: // with the time that pods are given, after which the node removes it
		if err := remove(nil); err != nil {
			return false, fmt.Errorf("deleting pod %s: %w", name, err)
		}
	}
	if err := remove(ptr.To(int64(0))); err != nil {
		return false, fmt.Errorf("deleting pod %s: %w", name, err)
	}
	ch.mu.Lock()
	if way == 0 {
		ch.Ended++
	}
	if way == 2 {
		ch.Renamed++
	}
	ch.mu.Unlock()
	if way != 2 {
		return false, nil
	}
	return true, ch.create(ctx, ch.Pod(rng, name))
}

// Arrivals returns how many pods have been created.
func (ch *Churn) Arrivals() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.Created
}
