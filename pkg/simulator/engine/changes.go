// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// Set makes an object what the API server has of it from now on, as an event of it
// would: a node, a pod that has a node, or an object of another kind that plugins read
// ([cluster.Supported]). One of its name is replaced. Pending pods come with
// [Engine.Schedule], and are not for Set.
func (e *Engine) Set(ctx context.Context, obj runtime.Object) error {
	kind, ok := cluster.KindOf(obj)
	if !ok {
		return fmt.Errorf("objects of type %T play no part in scheduling", obj)
	}
	informer, logger := e.informers.byResource[kind.Resource], klog.FromContext(ctx)
	old, known, err := informer.GetIndexer().Get(obj)
	if err != nil {
		return err
	}
	if pod, ok := obj.(*corev1.Pod); ok && (pod.Spec.NodeName == "" || known) {
		return fmt.Errorf("pod %s: must have a node and not be known", klog.KObj(pod))
	}
	if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
		_, err := e.claims.write(claim)
		return err
	}
	// First to the plugins, then to the cache, as their handlers were added.
	if err := informer.set(obj, false); err != nil {
		return err
	}
	switch obj := obj.(type) {
	case *corev1.Node:
		if before, ok := old.(*corev1.Node); known && ok {
			e.cache.UpdateNode(logger, before, obj)
		} else {
			e.cache.AddNode(logger, obj)
		}
	case *corev1.Pod:
		return e.observe(logger, obj)
	default:
		e.setPodGroup(logger, old, obj)
	}
	return nil
}

// Remove is Set for an object that is deleted. One that is not there is no error.
func (e *Engine) Remove(ctx context.Context, obj runtime.Object) error {
	kind, ok := cluster.KindOf(obj)
	if !ok {
		return fmt.Errorf("objects of type %T play no part in scheduling", obj)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		return e.Delete(ctx, pod.Namespace, pod.Name)
	}
	informer := e.informers.byResource[kind.Resource]
	_, known, err := informer.GetIndexer().Get(obj)
	if err != nil || !known {
		return err
	}
	if err := informer.remove(obj); err != nil {
		return err
	}
	e.removePodGroup(klog.FromContext(ctx), obj)
	if node, ok := obj.(*corev1.Node); ok {
		if err := e.cache.RemoveNode(klog.FromContext(ctx), node); err != nil {
			return fmt.Errorf("removing node %q from the cache: %w", node.Name, err)
		}
	}
	return nil
}

// Try is [Engine.Schedule] without preemption, whatever [Options.Preemption] says.
func (e *Engine) Try(ctx context.Context, pod *corev1.Pod) (Result, error) {
	preempts := e.preempts
	e.preempts = false
	defer func() { e.preempts = preempts }()
	return e.Schedule(ctx, pod)
}

// Profiles returns what each profile runs, by schedulerName, after multiPoint was
// expanded and the defaults merged.
func (e *Engine) Profiles() map[string]*schedconfig.Plugins {
	effective := make(map[string]*schedconfig.Plugins, len(e.profiles))
	for name, fw := range e.profiles {
		effective[name] = fw.ListPlugins()
	}
	return effective
}
