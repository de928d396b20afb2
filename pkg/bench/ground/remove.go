// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// requestLimit is a little more than the API server gives a request.
	requestLimit = 70 * time.Second
	// errorPatience is how long the API server may answer with errors, or not at all,
	// before the removal gives up.
	errorPatience = 30 * time.Second
	// maxPause is the longest pause between two looks at what is left.
	maxPause = time.Second
)

// remover removes what one run has put into a cluster.
type remover struct {
	client   kubernetes.Interface
	runID    string
	progress func(string)
	// heart is stopped before the namespace goes; may be nil.
	heart *heartbeat
	// removed counts what was there to remove.
	removed Removed
}

// all removes everything. It goes on after errors, apart from one: the namespace is
// the record of the run, and stays as long as anything else does.
func (r *remover) all(ctx context.Context) error {
	defer r.heart.stop()
	r.progress("removing what run " + r.runID + " has created")
	err := errors.Join(r.pods(ctx), r.services(ctx), r.nodes(ctx))
	if err == nil {
		err = r.traces(ctx)
	}
	if err != nil {
		return err
	}
	r.heart.stop()
	return r.namespace(ctx)
}

// pods deletes the pods in the run's namespace. There is no kubelet that a pod could
// wait for.
func (r *remover) pods(ctx context.Context) error {
	pods := r.client.CoreV1().Pods(namespaceOf(r.runID))
	removed, err := untilGone(ctx, "pods in namespace "+namespaceOf(r.runID), func(ctx context.Context) (int, error) {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		return count(len(list.Items), list), nil
	}, func(ctx context.Context) error {
		return pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
	})
	r.removed.Pods += removed
	return err
}

// services deletes the Services in the run's namespace.
func (r *remover) services(ctx context.Context) error {
	services := r.client.CoreV1().Services(namespaceOf(r.runID))
	var found []corev1.Service
	removed, err := untilGone(ctx, "Services in namespace "+namespaceOf(r.runID), func(ctx context.Context) (int, error) {
		list, err := services.List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		found = list.Items
		return len(found), nil
	}, func(ctx context.Context) error {
		return inParallel(ctx, len(found), func(i int) error {
			return services.Delete(ctx, found[i].Name, exactly(found[i].UID))
		})
	})
	r.removed.Services += removed
	return err
}

// events deletes the events in the run's namespace.
func (r *remover) events(ctx context.Context) error {
	events := r.client.CoreV1().Events(namespaceOf(r.runID))
	removed, err := untilGone(ctx, "events in namespace "+namespaceOf(r.runID), func(ctx context.Context) (int, error) {
		list, err := events.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		return count(len(list.Items), list), nil
	}, func(ctx context.Context) error {
		return events.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	r.removed.Events += removed
	return err
}

// nodes deletes the run's nodes.
func (r *remover) nodes(ctx context.Context) error {
	nodes := r.client.CoreV1().Nodes()
	var found []corev1.Node
	removed, err := untilGone(ctx, "fake nodes", func(ctx context.Context) (int, error) {
		list, err := nodes.List(ctx, selector(r.runID))
		if err != nil {
			return 0, err
		}
		found = found[:0]
		for i := range list.Items {
			if isNodeOf(r.runID, &list.Items[i]) {
				found = append(found, list.Items[i])
			}
		}
		return len(found), nil
	}, func(ctx context.Context) error {
		return inParallel(ctx, len(found), func(i int) error {
			return nodes.Delete(ctx, found[i].Name, exactly(found[i].UID))
		})
	})
	r.removed.Nodes += removed
	return err
}

// namespace deletes the run's namespace and waits until it is gone.
func (r *remover) namespace(ctx context.Context) error {
	namespaces := r.client.CoreV1().Namespaces()
	var uid types.UID
	removed, err := untilGone(ctx, "namespace "+namespaceOf(r.runID), func(ctx context.Context) (int, error) {
		ns, err := namespaces.Get(ctx, namespaceOf(r.runID), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && ns.Labels[names.BenchLabel] != r.runID) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		uid = ns.UID
		return 1, nil
	}, func(ctx context.Context) error {
		err := namespaces.Delete(ctx, namespaceOf(r.runID), exactly(uid))
		if apierrors.IsConflict(err) { // it is being deleted already
			return nil
		}
		return err
	})
	r.removed.Namespaces += removed
	return err
}

// nodesOfOthers returns the names of the nodes that have a name of the run's and are
// not the run's.
func (r *remover) nodesOfOthers(ctx context.Context) (sets.Set[string], error) {
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	others := sets.New[string]()
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, nodePrefix(r.runID)) {
			others.Insert(name)
		}
	}
	return others, nil
}

// untilGone removes until nothing is left, and returns how much there was. It tries
// again after errors, but not for ever and not where they are final.
func untilGone(ctx context.Context, what string, left func(context.Context) (int, error), remove func(context.Context) error) (int, error) {
	found, remaining := 0, 0
	pause := pollPause
	failing := time.Time{}
	for {
		err := limited(ctx, func(ctx context.Context) (err error) {
			if remaining, err = left(ctx); err != nil || remaining == 0 {
				return err
			}
			found = max(found, remaining)
			return remove(ctx)
		})
		switch {
		case err == nil && remaining == 0:
			return found, nil
		case ctx.Err() != nil:
			return found, gaveUp(what, remaining, errors.Join(context.Cause(ctx), err))
		case err == nil:
			failing = time.Time{}
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return found, gaveUp(what, remaining, err)
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > errorPatience:
			return found, gaveUp(what, remaining, err)
		}
		// Mostly all of it is gone by now, and the next look tells so.
		if err == nil && pause == pollPause {
			pause *= 2
			continue
		}
		select {
		case <-ctx.Done():
			return found, gaveUp(what, remaining, errors.Join(context.Cause(ctx), err))
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		}
	}
}

// limited gives one attempt a limit of its own, so that an API server that does not
// answer any more does not take all the time.
func limited(ctx context.Context, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return attempt(ctx)
}

// gaveUp says what could not be removed.
func gaveUp(what string, remaining int, err error) error {
	if remaining == 0 {
		return fmt.Errorf("removing %s: %w", what, err)
	}
	return fmt.Errorf("removing %s: %d left: %w", what, remaining, err)
}

// inParallel deletes n objects, several at a time. One that is gone, or has been
// replaced by another of its name, is no error.
func inParallel(ctx context.Context, n int, remove func(int) error) error {
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, workers, n, func(i int) {
		err := remove(i)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}

// count is how many objects there are behind a list with a limit.
func count(items int, list metav1.ListInterface) int {
	return items + int(ptr.Deref(list.GetRemainingItemCount(), 0))
}
