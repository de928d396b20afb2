// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
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
	// What still has a node of its name is about that one, which is not the run's.
	others, err := nodeNamesWith(ctx, r.client, nodePrefix(r.runID))
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
	return sweep(ctx, "pods of DaemonSets on fake nodes", &r.removed.Pods, func(ctx context.Context) ([]victim, error) {
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(pod *corev1.Pod) bool { return about(pod.Spec.NodeName) }), nil
	}, func(ctx context.Context, v victim) error {
		return r.client.CoreV1().Pods(v.namespace).Delete(ctx, v.name, v.now())
	})
}

func (r *remover) nodeLeases(ctx context.Context, about func(string) bool) error {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	return sweep(ctx, "Leases of fake nodes", &r.removed.Leases, func(ctx context.Context) ([]victim, error) {
		list, err := leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(lease *coordinationv1.Lease) bool { return about(lease.Name) }), nil
	}, func(ctx context.Context, v victim) error {
		return leases.Delete(ctx, v.name, v.only())
	})
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
	var found []corev1.Event
	err := sweep(ctx, "events about fake nodes", &r.removed.Events, func(ctx context.Context) ([]victim, error) {
		list, err := eventsAboutNodes(ctx, r.client)
		if err != nil {
			return nil, err
		}
		return victims(list, func(event *corev1.Event) bool {
			if !about(event.InvolvedObject.Name) {
				return false
			}
			found = append(found, *event)
			return true
		}), nil
	}, func(ctx context.Context, v victim) error {
		return r.client.CoreV1().Events(v.namespace).Delete(ctx, v.name, v.only())
	})
	return found, err
}

// eventsAboutNodes lists them: events about objects without a namespace are in
// namespace default.
func eventsAboutNodes(ctx context.Context, client kubernetes.Interface) ([]corev1.Event, error) {
	list, err := client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.kind", "Node").String(),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the events about nodes: %w", err)
	}
	return list.Items, nil
}

// nodeNamesWith returns the names of the nodes that start with prefix.
func nodeNamesWith(ctx context.Context, client kubernetes.Interface, prefix string) (sets.Set[string], error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	found := sets.New[string]()
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, prefix) {
			found.Insert(name)
		}
	}
	return found, nil
}
