// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
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
// the record of the run, and stays as long as there may be pods or nodes.
func (r *remover) all(ctx context.Context) error {
	defer r.heart.stop()
	r.progress("removing what run " + r.runID + " has created")
	var namespaces []victim
	err := patiently(ctx, func(ctx context.Context) (err error) {
		namespaces, err = r.findNamespace(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if len(namespaces) > 0 {
		err = errors.Join(r.pods(ctx), r.services(ctx))
	}
	if err := errors.Join(err, r.nodes(ctx)); err != nil {
		return err
	}
	// What still has a node of its name is about that one, which is not the run's.
	var others sets.Set[string]
	err = patiently(ctx, func(ctx context.Context) (err error) {
		others, err = nodeNamesWith(ctx, r.client, nodePrefix(r.runID))
		return err
	})
	if err != nil {
		return err
	}
	about := func(name string) bool {
		return strings.HasPrefix(name, nodePrefix(r.runID)) && !others.Has(name)
	}
	r.heart.stop()
	return errors.Join(
		r.daemonPods(ctx, about),
		// It goes while the events come: controllers take their time with both.
		patiently(ctx, r.startNamespace),
		r.nodeEvents(ctx, about),
		// Again, and these only now: their controllers may have been about to create one
		// when its node went.
		r.daemonPods(ctx, about),
		r.nodeLeases(ctx, about),
		r.namespace(ctx),
	)
}

// startNamespace asks for the namespace to be deleted.
func (r *remover) startNamespace(ctx context.Context) error {
	_, err := sweepOnce(ctx, r.findNamespace, r.deleteNamespace)
	return err
}

// findNamespace returns the run's namespace, if it has one.
func (r *remover) findNamespace(ctx context.Context) ([]victim, error) {
	ns, err := r.client.CoreV1().Namespaces().Get(ctx, namespaceOf(r.runID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && ns.Labels[names.BenchLabel] != r.runID) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespaceOf(r.runID), err)
	}
	return []victim{{name: ns.Name, uid: ns.UID}}, nil
}

// pods deletes the pods in the run's namespace. There is no kubelet that a pod could
// wait for.
func (r *remover) pods(ctx context.Context) error {
	pods := r.client.CoreV1().Pods(namespaceOf(r.runID))
	return sweep(ctx, "pods in namespace "+namespaceOf(r.runID), &r.removed.Pods, func(ctx context.Context) ([]victim, error) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(*corev1.Pod) bool { return true }), nil
	}, func(ctx context.Context, v victim) error {
		return pods.Delete(ctx, v.name, v.now())
	})
}

// services deletes the Services in the run's namespace.
func (r *remover) services(ctx context.Context) error {
	services := r.client.CoreV1().Services(namespaceOf(r.runID))
	return sweep(ctx, "Services in namespace "+namespaceOf(r.runID), &r.removed.Services, func(ctx context.Context) ([]victim, error) {
		list, err := services.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(*corev1.Service) bool { return true }), nil
	}, func(ctx context.Context, v victim) error {
		return services.Delete(ctx, v.name, v.only())
	})
}

// events deletes the events in the run's namespace.
func (r *remover) events(ctx context.Context) error {
	events := r.client.CoreV1().Events(namespaceOf(r.runID))
	return sweep(ctx, "events in namespace "+namespaceOf(r.runID), &r.removed.Events, func(ctx context.Context) ([]victim, error) {
		list, err := events.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(*corev1.Event) bool { return true }), nil
	}, func(ctx context.Context, v victim) error {
		return events.Delete(ctx, v.name, v.only())
	})
}

// nodes deletes the run's nodes.
func (r *remover) nodes(ctx context.Context) error {
	nodes := r.client.CoreV1().Nodes()
	return sweep(ctx, "fake nodes", &r.removed.Nodes, func(ctx context.Context) ([]victim, error) {
		list, err := nodes.List(ctx, selector(r.runID))
		if err != nil {
			return nil, err
		}
		return victims(list.Items, func(node *corev1.Node) bool { return isNodeOf(r.runID, node) }), nil
	}, func(ctx context.Context, v victim) error {
		return nodes.Delete(ctx, v.name, v.only())
	})
}

// namespace deletes the run's namespace and waits until it is gone. If it does not go,
// the error says what the namespace controller says about it.
func (r *remover) namespace(ctx context.Context) error {
	err := sweep(ctx, "the namespace", &r.removed.Namespaces, r.findNamespace, r.deleteNamespace)
	if err == nil {
		return nil
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachLimit)
	defer cancel()
	ns, lookErr := r.client.CoreV1().Namespaces().Get(after, namespaceOf(r.runID), metav1.GetOptions{})
	if lookErr != nil {
		return err
	}
	for _, condition := range ns.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			err = fmt.Errorf("%w; %s: %s", err, condition.Type, condition.Message)
		}
	}
	return err
}

func (r *remover) deleteNamespace(ctx context.Context, v victim) error {
	return r.client.CoreV1().Namespaces().Delete(ctx, v.name, v.only())
}

// now are the options that delete the victim without grace, and nothing else that
// has its name by then.
func (v victim) now() metav1.DeleteOptions {
	options := v.only()
	options.GracePeriodSeconds = ptr.To[int64](0)
	return options
}

// only are the options that delete the victim, and nothing else that has its name by
// then.
func (v victim) only() metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(v.uid)}}
}
