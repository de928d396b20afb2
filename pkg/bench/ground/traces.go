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
	// gone: it looks every five seconds. greeting is how long what it has written about
	// a node that it saw may be under way.
	farewell = 7 * time.Second
	greeting = 3 * time.Second
	// reasonRegistered and reasonRemoving are what it writes about a node when it
	// first sees it, and when it sees it no more.
	reasonRegistered = "RegisteredNode"
	reasonRemoving   = "RemovingNode"
)

// The rest of this file removes what others have made for the run's nodes, once those
// are gone: the pods on them that tolerate every taint, kwok's Leases, and events. Controllers
// remove the first two as well, later. about tells the name of such a node.

// daemonPods deletes the pods of others on the run's nodes, and those of DaemonSets that
// wait for one which has gone: the controller may have created them before it saw that.
func (r *remover) daemonPods(ctx context.Context, about func(string) bool) error {
	return sweep(ctx, "pods of others on fake nodes", &r.removed.Pods, func(ctx context.Context) ([]victim, error) {
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(pod *corev1.Pod) bool { return about(nodeOf(pod)) }), nil
	}, func(ctx context.Context, v victim) error {
		return r.client.CoreV1().Pods(v.namespace).Delete(ctx, v.name, v.now())
	})
}

// nodeOf returns the name of the node that a pod is on or, if it is a DaemonSet's and
// waits to be scheduled, of the one that it is meant for.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return pod.Spec.NodeName
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
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
// nodes are gone already: it waits until there is one for each node that there was a
// first one for, or until no more come. It deletes them all together then, so that
// whoever is killed here leaves the first ones to tell what is still to come.
func (r *remover) nodeEvents(ctx context.Context, about func(string) bool) error {
	if r.removed.Nodes > 0 {
		r.progress("waiting for the last events about the fake nodes")
	}
	last, seen := time.Now(), 0
	for {
		var events []corev1.Event
		err := patiently(ctx, func(ctx context.Context) (err error) {
			events, err = eventsWithoutNamespace(ctx, r.client)
			return err
		})
		if err != nil {
			return err
		}
		found, registered, removing := tally(events, about)
		if found != seen {
			last, seen = time.Now(), found
		}
		quiet := time.Since(last)
		switch {
		case registered.Len() == 0 && (r.removed.Nodes == 0 || quiet > greeting),
			registered.Len() > 0 && (removing.IsSuperset(registered) || quiet > farewell):
			return r.sweepEvents(ctx, about)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the last events about the fake nodes: %w", context.Cause(ctx))
		case <-time.After(lookPause):
		}
	}
}

// tally counts the events about nodes, and tells which nodes have had the first one and
// which the last one.
func tally(events []corev1.Event, about func(string) bool) (found int, registered, removing sets.Set[string]) {
	registered, removing = sets.New[string](), sets.New[string]()
	for i := range events {
		name := events[i].InvolvedObject.Name
		if !isAboutNode(&events[i]) || !about(name) {
			continue
		}
		found++
		switch events[i].Reason {
		case reasonRegistered:
			registered.Insert(name)
		case reasonRemoving:
			removing.Insert(name)
		}
	}
	return found, registered, removing
}

func (r *remover) sweepEvents(ctx context.Context, about func(string) bool) error {
	return sweep(ctx, "events in namespace default", &r.removed.Events, func(ctx context.Context) ([]victim, error) {
		events, err := eventsWithoutNamespace(ctx, r.client)
		if err != nil {
			return nil, err
		}
		return victims(events, func(event *corev1.Event) bool {
			return isAboutNode(event) && about(event.InvolvedObject.Name) || r.isStray(event)
		}), nil
	}, func(ctx context.Context, v victim) error {
		return r.client.CoreV1().Events(v.namespace).Delete(ctx, v.name, v.only())
	})
}

// isAboutNode reports whether an event tells something of a node.
func isAboutNode(event *corev1.Event) bool { return event.InvolvedObject.Kind == "Node" }

// isStray reports whether an event is about an object in the run's namespace, but not
// in that namespace itself: the endpoints controller, where it fails to create the
// Endpoints of a Service, forgets the namespace and only says it in the message.
func (r *remover) isStray(event *corev1.Event) bool {
	return !isAboutNode(event) && strings.Contains(event.Message, namespaceOf(r.runID)+"/")
}

// eventsWithoutNamespace lists the events about objects without a namespace: they are
// in namespace default.
func eventsWithoutNamespace(ctx context.Context, client kubernetes.Interface) ([]corev1.Event, error) {
	list, err := client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.namespace", "").String(),
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
