// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

const (
	// farewell is how long the controller-manager may take to write that a node has
	// gone: it looks every five seconds.
	farewell = 7 * time.Second
	// reasonRegistered and reasonRemoving are what it writes about a node when it
	// first sees it, and when it sees it no more.
	reasonRegistered = "RegisteredNode"
	reasonRemoving   = "RemovingNode"
)

// traces removes what others have made for the run's nodes, once those are gone: the
// pods that DaemonSets put on them, kwok's Leases, and events. Controllers remove
// the first two as well, later.
func (r *remover) traces(ctx context.Context) error {
	others, err := r.nodesOfOthers(ctx)
	if err != nil {
		return err
	}
	// about reports whether a name is that of a node of the run that is gone.
	about := func(name string) bool {
		return strings.HasPrefix(name, nodePrefix(r.runID)) && !others.Has(name)
	}
	if err := r.daemonPods(ctx, about); err != nil {
		return err
	}
	if err := r.nodeLeases(ctx, about); err != nil {
		return err
	}
	if err := r.nodeEvents(ctx, about); err != nil {
		return err
	}
	// kwok may have been about to create one when its node went.
	return r.nodeLeases(ctx, about)
}

func (r *remover) daemonPods(ctx context.Context, about func(string) bool) error {
	var found []corev1.Pod
	removed, err := untilGone(ctx, "pods of DaemonSets on fake nodes", func(ctx context.Context) (int, error) {
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		found = found[:0]
		for i := range list.Items {
			if about(list.Items[i].Spec.NodeName) {
				found = append(found, list.Items[i])
			}
		}
		return len(found), nil
	}, func(ctx context.Context) error {
		return inParallel(ctx, len(found), func(i int) error {
			options := exactly(found[i].UID)
			options.GracePeriodSeconds = ptr.To[int64](0)
			return r.client.CoreV1().Pods(found[i].Namespace).Delete(ctx, found[i].Name, options)
		})
	})
	r.removed.Pods += removed
	return err
}

func (r *remover) nodeLeases(ctx context.Context, about func(string) bool) error {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	var found []string
	removed, err := untilGone(ctx, "Leases of fake nodes", func(ctx context.Context) (int, error) {
		list, err := leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		found = found[:0]
		for i := range list.Items {
			if about(list.Items[i].Name) {
				found = append(found, list.Items[i].Name)
			}
		}
		return len(found), nil
	}, func(ctx context.Context) error {
		return inParallel(ctx, len(found), func(i int) error {
			return leases.Delete(ctx, found[i], metav1.DeleteOptions{})
		})
	})
	r.removed.Leases += removed
	return err
}

// nodeEvents deletes the events about the run's nodes. The last ones come when the
// nodes are gone already; it waits until there is one for each node whose first one
// it has seen, or until no more come.
func (r *remover) nodeEvents(ctx context.Context, about func(string) bool) error {
	if r.removed.Nodes > 0 {
		r.progress("waiting for the last events about the fake nodes")
	}
	registered, removing := sets.New[string](), sets.New[string]()
	last := time.Now()
	for {
		events, err := r.deleteNodeEvents(ctx, about)
		if err != nil {
			return err
		}
		for i := range events {
			last = time.Now()
			switch events[i].Reason {
			case reasonRegistered:
				registered.Insert(events[i].InvolvedObject.Name)
			case reasonRemoving:
				removing.Insert(events[i].InvolvedObject.Name)
			}
		}
		if r.removed.Nodes == 0 || removing.IsSuperset(registered) && registered.Len() > 0 || time.Since(last) > farewell {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the last events about the fake nodes: %w", context.Cause(ctx))
		case <-time.After(pollPause):
		}
	}
}

// deleteNodeEvents deletes the events about nodes that there are, and returns them.
func (r *remover) deleteNodeEvents(ctx context.Context, about func(string) bool) ([]corev1.Event, error) {
	events := r.client.CoreV1().Events(metav1.NamespaceDefault)
	var all, found []corev1.Event
	removed, err := untilGone(ctx, "events about fake nodes", func(ctx context.Context) (int, error) {
		list, err := events.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.kind", "Node").String()})
		if err != nil {
			return 0, err
		}
		found = found[:0]
		for i := range list.Items {
			if about(list.Items[i].InvolvedObject.Name) {
				found = append(found, list.Items[i])
			}
		}
		all = append(all, found...)
		return len(found), nil
	}, func(ctx context.Context) error {
		return inParallel(ctx, len(found), func(i int) error {
			return events.Delete(ctx, found[i].Name, exactly(found[i].UID))
		})
	})
	r.removed.Events += removed
	return all, err
}
