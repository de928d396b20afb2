// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// pendingPodsIndex is the name of an index of the shared pod informer: pods
// without a node, by namespace. Several profiles share it.
const pendingPodsIndex = Name + "/pending-by-namespace"

// namespaceWatch is the plugin's own source of namespaces.
type namespaceWatch struct {
	index *namespaceIndex
	// synced is done when the handler has seen every namespace of the first list.
	synced cache.DoneChecker
	// pendingPods holds the index pendingPodsIndex.
	pendingPods cache.Indexer
	// monitor is nil without tenancy.
	monitor *tenancyMonitor
}

// watchNamespaces adds the plugin's handlers to the shared informers. Before the
// informers start, nothing happens.
func (pl *LabelPresence) watchNamespaces(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	core := pl.handle.SharedInformerFactory().Core().V1()
	pods, namespaces := core.Pods().Informer(), core.Namespaces().Informer()

	// Another profile may have added the index.
	if _, exists := pods.GetIndexer().GetIndexers()[pendingPodsIndex]; !exists {
		if err := pods.AddIndexers(cache.Indexers{pendingPodsIndex: indexPendingPod}); err != nil {
			return fmt.Errorf("adding index %q of pods: %w", pendingPodsIndex, err)
		}
	}
	watch := &namespaceWatch{
		index:       newNamespaceIndex(pl.policy.factsOf),
		pendingPods: pods.GetIndexer(),
	}
	if pl.policy.tenancy != nil {
		monitor, err := pl.startTenancyMonitor(ctx, watch.index)
		if err != nil {
			return fmt.Errorf("monitoring tenancy: %w", err)
		}
		watch.monitor = monitor
	}
	pl.namespaces = watch

	registration, err := namespaces.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if namespace, ok := obj.(*corev1.Namespace); ok {
				pl.namespaceDelivered(logger, nil, namespace, isInInitialList)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, okOld := oldObj.(*corev1.Namespace)
			updated, okNew := newObj.(*corev1.Namespace)
			if okOld && okNew {
				pl.namespaceDelivered(logger, old, updated, false)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if namespace, ok := obj.(*corev1.Namespace); ok {
				watch.index.applyDelivered(namespace, nil)
				if watch.monitor != nil {
					watch.monitor.namespaceChanged(namespace.Name)
				}
			}
		},
	}, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return err
	}
	watch.synced = registration.HasSyncedChecker()
	return nil
}

// indexPendingPod is the function of pendingPodsIndex.
func indexPendingPod(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
		return []string{pod.Namespace}, nil
	}
	return nil, nil
}

// waitForSync returns when every namespace that existed at the start is in the
// index, or with an error when ctx ends. The scheduler waits for its own
// handlers before the first cycle, but not for those of plugins; this one lags
// by what it takes to run through the list, and only once.
func (w *namespaceWatch) waitForSync(ctx context.Context) error {
	select {
	case <-w.synced.Done():
		return nil
	default:
	}
	select {
	case <-w.synced.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the first list of namespaces: %w", context.Cause(ctx))
	}
}

// namespaceDelivered takes over a namespace that is new or changed; old is nil
// if it is new.
//
// It also wakes the pods that the change may help. The queueing hint does that
// as a rule. But its event comes through another watch, which can have been
// ahead: a pod that was created after the event and refused before this
// delivery has been told of the change by nobody.
func (pl *LabelPresence) namespaceDelivered(logger klog.Logger, old, updated *corev1.Namespace, initial bool) {
	after := pl.policy.factsOf(updated.Labels)
	var before *namespaceFacts
	if old == nil {
		pl.namespaces.index.applyDelivered(nil, updated)
	} else {
		// A change of anything but labels, and a resync, end here.
		facts := pl.policy.factsOf(old.Labels)
		before = &facts
		pl.namespaces.index.applyDelivered(old, updated)
		if before.equal(after) {
			return
		}
	}
	if pl.namespaces.monitor != nil {
		pl.namespaces.monitor.namespaceChanged(updated.Name)
	}
	// PreFilter waits for the first list, so no pod has missed anything of it.
	if !initial {
		pl.wakePendingPods(logger, updated.Name, before, after)
	}
}

// wakePendingPods sends the profile's pending pods of a namespace back to the
// active queue, if the change from before to after may help them. The queue
// remembers it for a pod that is being scheduled at this moment.
func (pl *LabelPresence) wakePendingPods(logger klog.Logger, namespace string, before *namespaceFacts, after namespaceFacts) {
	pending, err := pl.namespaces.pendingPods.ByIndex(pendingPodsIndex, namespace)
	if err != nil {
		logger.Error(err, "Failed to list pending pods", "namespace", klog.KRef("", namespace))
		return
	}
	woken := map[string]*corev1.Pod{}
	for _, obj := range pending {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.Spec.SchedulerName != pl.handle.ProfileName() {
			continue
		}
		if pl.policy.mayHelp(pl.policy.selectFor(pod), before, after) {
			woken[klog.KObj(pod).String()] = pod
		}
	}
	if len(woken) == 0 {
		return
	}
	logger.V(5).Info("Namespace changed, waking its pending pods", "namespace", klog.KRef("", namespace), "pods", len(woken))
	pl.handle.Activate(logger, woken)
}
