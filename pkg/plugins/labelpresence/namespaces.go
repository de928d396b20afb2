// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// namespaceFactsReader reads the facts about namespaces from the informer's store. It derives
// them once for each version of a namespace.
type namespaceFactsReader struct {
	lister  corelisters.NamespaceLister
	factsOf func(labels map[string]string) namespaceFacts
	// derived has a derivedFacts for each name.
	derived sync.Map
}

type derivedFacts struct {
	from  *corev1.Namespace
	facts namespaceFacts
}

// get returns the facts about a namespace, and whether it is known.
func (r *namespaceFactsReader) get(name string) (namespaceFacts, bool) {
	namespace, err := r.lister.Get(name)
	if err != nil {
		r.derived.Delete(name)
		return namespaceFacts{}, false // the lister's only error is that the namespace is not there
	}
	if value, ok := r.derived.Load(name); ok {
		if known, ok := value.(derivedFacts); ok && known.from == namespace {
			return known.facts, true
		}
	}
	facts := r.factsOf(namespace.Labels)
	r.derived.Store(name, derivedFacts{namespace, facts})
	if _, err := r.lister.Get(name); err != nil {
		r.derived.Delete(name) // the namespace was deleted meanwhile, and its handler may have been called before Store
	}
	return facts, true
}

// namespaceWatch is the plugin's source of namespaces. It wakes the pods that a change of
// their namespace may help: what it reads is what wakes a pod, so that no pod is woken to
// meet an older state.
type namespaceWatch struct {
	*namespaceFactsReader

	// synced is done when the handler has seen every namespace of the first list.
	synced cache.DoneChecker
	pods   corelisters.PodLister
	// rejected are the pods that the plugin rejected in their last attempt. Others are not
	// helped by a change of their namespace.
	rejected rejectedPods
	// monitor is nil without tenancy.
	monitor *tenancyMonitor
}

// watchNamespaces adds the plugin's handlers to the shared informers. Before the
// informers start, nothing happens.
func (pl *LabelPresence) watchNamespaces(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	core := pl.handle.SharedInformerFactory().Core().V1()
	pods, namespaces := core.Pods().Informer(), core.Namespaces().Informer()

	reader := &namespaceFactsReader{lister: core.Namespaces().Lister(), factsOf: pl.policy.factsOf}
	watch := &namespaceWatch{namespaceFactsReader: reader, pods: core.Pods().Lister()}
	if pl.policy.tenancy != nil {
		monitor, err := pl.startTenancyMonitor(ctx, reader)
		if err != nil {
			return fmt.Errorf("monitoring tenancy: %w", err)
		}
		watch.monitor = monitor
	}
	pl.namespaces = watch
	if _, err := pods.AddEventHandlerWithOptions(plugin.EventHandler(func(old, updated *corev1.Pod) {
		if updated == nil {
			watch.rejected.remove(old.UID)
		} else if updated.Spec.NodeName != "" {
			watch.rejected.remove(updated.UID)
		}
	}), cache.HandlerOptions{Logger: &logger}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}

	changes := plugin.EventHandler(func(old, updated *corev1.Namespace) {
		if updated != nil {
			pl.namespaceDelivered(logger, old, updated, false)
			return
		}
		watch.derived.Delete(old.Name)
		if watch.monitor != nil {
			watch.monitor.namespaceChanged(old.Name)
		}
	})
	registration, err := namespaces.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if namespace, ok := obj.(*corev1.Namespace); ok {
				pl.namespaceDelivered(logger, nil, namespace, isInInitialList)
			}
		},
		UpdateFunc: changes.OnUpdate,
		DeleteFunc: changes.OnDelete,
	}, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return err
	}
	watch.synced = registration.HasSyncedChecker()
	return nil
}

// namespaceDelivered wakes the pods that a namespace that is new or changed may help; old is
// nil if it is new. A queueing hint for namespaces would do the same for an event of a second
// watch, which the scheduler would open for it, and which may be ahead of what PreFilter reads.
func (pl *LabelPresence) namespaceDelivered(logger klog.Logger, old, updated *corev1.Namespace, initial bool) {
	after := pl.policy.factsOf(updated.Labels)
	var before *namespaceFacts
	if old != nil {
		facts := pl.policy.factsOf(old.Labels)
		if facts.equal(after) {
			return // a change of anything but labels, or a resync
		}
		before = &facts
	}
	if pl.namespaces.monitor != nil {
		pl.namespaces.monitor.namespaceChanged(updated.Name)
	}
	// PreFilter waits for the first list, so no pod has missed anything of it.
	if !initial {
		pl.activatePendingPods(logger, updated.Name, before, after)
	}
}

// activatePendingPods sends the pending pods of a namespace that the plugin has rejected
// back to the active queue, if the change from before to after may help them. The queue
// remembers it for a pod that is being scheduled at this moment.
func (pl *LabelPresence) activatePendingPods(logger klog.Logger, namespace string, before *namespaceFacts, after namespaceFacts) {
	activated := map[string]*corev1.Pod{}
	for uid, name := range pl.namespaces.rejected.in(namespace) {
		pod := pl.namespaces.pendingPod(uid, name)
		if pod != nil && pl.policy.mayMakeSchedulable(pl.policy.selectFor(pod), before, after) {
			activated[name.String()] = pod
		}
	}
	if len(activated) == 0 {
		return
	}
	logger.V(5).Info("Namespace changed, waking its pending pods", "namespace", klog.KRef("", namespace), "pods", len(activated))
	pl.handle.Activate(logger, activated)
}

// pendingPod returns the pod of that name and UID if it has no node yet; nil otherwise.
func (w *namespaceWatch) pendingPod(uid types.UID, name cache.ObjectName) *corev1.Pod {
	pod, err := w.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
		return nil // the lister's only error is that the pod is not there
	}
	return pod
}

// recordRejection records that the plugin rejected the pod, by the facts about its namespace;
// nil if it was not known. What has changed since they were read found no such record, so it
// is looked at now.
func (pl *LabelPresence) recordRejection(logger klog.Logger, pod *corev1.Pod, selected selection, by *namespaceFacts) {
	watch, name := pl.namespaces, cache.MetaObjectToName(pod)
	watch.rejected.add(pod.UID, name)
	if watch.pendingPod(pod.UID, name) == nil {
		watch.rejected.remove(pod.UID) // it went meanwhile, and nothing else would forget it
		return
	}
	if now, ok := watch.get(pod.Namespace); ok && pl.policy.mayMakeSchedulable(selected, by, now) {
		logger.V(5).Info("Namespace changed during the attempt, waking the pod", "pod", klog.KObj(pod), "namespace", klog.KRef("", pod.Namespace))
		pl.handle.Activate(logger, map[string]*corev1.Pod{name.String(): pod})
	}
}

// rejectedPods are the names of the pods that the plugin rejected in their last attempt.
// The zero value has none.
type rejectedPods struct {
	mu    sync.Mutex
	names map[types.UID]cache.ObjectName
}

func (r *rejectedPods) add(uid types.UID, name cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[types.UID]cache.ObjectName{}
	}
	r.names[uid] = name
}

func (r *rejectedPods) remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, uid)
}

func (r *rejectedPods) in(namespace string) map[types.UID]cache.ObjectName {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[types.UID]cache.ObjectName{}
	for uid, name := range r.names {
		if name.Namespace == namespace {
			found[uid] = name
		}
	}
	return found
}
