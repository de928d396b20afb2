// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
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
		watch.index.applyDelivered(old, nil)
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

// indexPendingPod is the function of pendingPodsIndex.
func indexPendingPod(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
		return []string{pod.Namespace}, nil
	}
	return nil, nil
}

// namespaceDelivered takes over a namespace that is new or changed; old is nil
// if it is new.
//
// It also wakes the pods that the change may help. The queueing hint does that
// as a rule. But its event comes through another watch, which can have been
// ahead: a pod that was created after the event and rejected before this
// delivery has not been told of the change.
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
		pl.activatePendingPods(logger, updated.Name, before, after)
	}
}

// activatePendingPods sends the pending pods of a namespace that the plugin has rejected
// back to the active queue, if the change from before to after may help them. The queue
// remembers it for a pod that is being scheduled at this moment.
func (pl *LabelPresence) activatePendingPods(logger klog.Logger, namespace string, before *namespaceFacts, after namespaceFacts) {
	pending, err := pl.namespaces.pendingPods.ByIndex(pendingPodsIndex, namespace)
	if err != nil {
		logger.Error(err, "Failed to list pending pods", "namespace", klog.KRef("", namespace))
		return
	}
	activated := map[string]*corev1.Pod{}
	for _, obj := range pending {
		pod, ok := obj.(*corev1.Pod)
		if !ok || !pl.namespaces.rejected.has(pod.UID) {
			continue
		}
		if pl.policy.mayMakeSchedulable(pl.policy.selectFor(pod), before, after) {
			activated[klog.KObj(pod).String()] = pod
		}
	}
	if len(activated) == 0 {
		return
	}
	logger.V(5).Info("Namespace changed, waking its pending pods", "namespace", klog.KRef("", namespace), "pods", len(activated))
	pl.handle.Activate(logger, activated)
}

// rejectedPods are the pods that the plugin rejected in their last attempt. The zero value
// has none.
type rejectedPods struct {
	mu   sync.Mutex
	uids sets.Set[types.UID]
}

func (r *rejectedPods) add(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uids == nil {
		r.uids = sets.New[types.UID]()
	}
	r.uids.Insert(uid)
}

func (r *rejectedPods) remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids.Delete(uid)
}

func (r *rejectedPods) has(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uids.Has(uid)
}

// recordRejection records that the plugin rejected the pod, by the facts about its namespace;
// nil if it was not known. What has changed since they were read found no such record, so it
// is looked at now.
func (pl *LabelPresence) recordRejection(logger klog.Logger, pod *corev1.Pod, selected selection, by *namespaceFacts) {
	watch := pl.namespaces
	watch.rejected.add(pod.UID)
	key := pod.Namespace + "/" + pod.Name
	known, _, err := watch.pendingPods.GetByKey(key)
	if pending, ok := known.(*corev1.Pod); err != nil || !ok || pending.UID != pod.UID || pending.Spec.NodeName != "" {
		watch.rejected.remove(pod.UID) // it went meanwhile, and nothing else would forget it
		return
	}
	if now, ok := watch.index.get(pod.Namespace); ok && pl.policy.mayMakeSchedulable(selected, by, now) {
		logger.V(5).Info("Namespace changed during the attempt, waking the pod", "pod", klog.KObj(pod), "namespace", klog.KRef("", pod.Namespace))
		pl.handle.Activate(logger, map[string]*corev1.Pod{key: pod})
	}
}

// namespaceIndex knows the facts about every namespace. It is what PreFilter
// reads.
//
// It is fed from two watches that run independently of each other: the plugin's
// own informer, and the one whose events wake pods. Each may be ahead of the
// other, and a pod must not be activated by an event that the index has not seen, or
// it is rejected again and then sleeps for minutes. So whoever learns something
// first says so, in any order, and any number of times:
//
//	absent ── observe ──> known (uid, version) ── forget, same uid ──> absent
//	                        │  ▲
//	                        └──┘ observe: a hint a higher version, the informer any
//
// What the informer delivers is the truth, also where that is older than what it has
// delivered before: etcd was restored from a snapshot, and versions began again. It only
// has to catch up where a hint was ahead of it.
//
// Assumptions: but for a restore, resource versions of namespaces grow with every write (the
// API server's contract since they became comparable), and the informer delivers its watch
// in order.
type namespaceIndex struct {
	factsOf func(labels map[string]string) namespaceFacts

	mu sync.RWMutex
	// entries by namespace name; the next two fields as well under mu.
	entries map[string]namespaceEntry
	// delivered is the highest version that the informer has delivered, of those since it
	// went back last, and lost the highest that was known then: a hint about no higher one
	// may be of what the restore has undone.
	delivered, lost string
}

type namespaceEntry struct {
	uid     types.UID
	version string
	facts   namespaceFacts
	// hinted is whether a hint told it, and the informer has not confirmed it yet.
	hinted bool
}

func newNamespaceIndex(factsOf func(labels map[string]string) namespaceFacts) *namespaceIndex {
	return &namespaceIndex{factsOf: factsOf, entries: map[string]namespaceEntry{}}
}

// get returns the facts about a namespace, and whether it is known.
func (x *namespaceIndex) get(name string) (namespaceFacts, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	entry, known := x.entries[name]
	return entry.facts, known
}

// apply takes over a change that a queueing hint was told of: from old to new,
// either nil. It is idempotent, and a change that is not news is ignored.
func (x *namespaceIndex) apply(old, updated metav1.Object) {
	x.take(old, updated, false)
}

// applyDelivered is apply for a change that the plugin's own informer delivered.
func (x *namespaceIndex) applyDelivered(old, updated metav1.Object) {
	x.take(old, updated, true)
}

func (x *namespaceIndex) take(old, updated metav1.Object, delivered bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case updated != nil && delivered:
		x.observeDelivered(old, updated)
	case updated != nil:
		x.observeHinted(updated)
	case old != nil:
		x.forget(old)
		if delivered {
			x.advance(old.GetResourceVersion())
		}
	}
}

// observeHinted is called with mu held.
func (x *namespaceIndex) observeHinted(namespace metav1.Object) {
	version := namespace.GetResourceVersion()
	if x.lost != "" && !isNewer(version, x.lost) {
		return // the informer tells what is true
	}
	if entry, known := x.entries[namespace.GetName()]; known {
		if !isNewer(version, entry.version) {
			return
		}
	} else if x.delivered != "" && !isNewer(version, x.delivered) {
		// The informer is past this version and the namespace is not there: it
		// was deleted since. A late hint must not bring it back.
		return
	}
	x.set(namespace, true)
}

// observeDelivered is called with mu held.
func (x *namespaceIndex) observeDelivered(old, namespace metav1.Object) {
	version, last := namespace.GetResourceVersion(), x.delivered
	if old != nil {
		last = old.GetResourceVersion()
	}
	advances := last == "" || isNewer(version, last)
	if entry := x.entries[namespace.GetName()]; !advances || !entry.hinted || isNewer(version, entry.version) || version == entry.version {
		x.set(namespace, false)
	} // else the informer is on its way to what a hint told
	if old != nil && !advances && version != last {
		x.goBack(last)
		x.delivered = version
		return
	}
	x.advance(version)
}

// goBack forgets how far hints were ahead of the informer, which has delivered an older
// version than last. It is called with mu held.
func (x *namespaceIndex) goBack(last string) {
	for _, version := range []string{last, x.delivered} {
		if x.lost == "" || isNewer(version, x.lost) {
			x.lost = version
		}
	}
	for name, entry := range x.entries {
		if isNewer(entry.version, x.lost) {
			x.lost = entry.version
		}
		entry.hinted = false
		x.entries[name] = entry
	}
}

// set is called with mu held.
func (x *namespaceIndex) set(namespace metav1.Object, hinted bool) {
	x.entries[namespace.GetName()] = namespaceEntry{
		uid: namespace.GetUID(), version: namespace.GetResourceVersion(), facts: x.factsOf(namespace.GetLabels()), hinted: hinted,
	}
}

// forget is called with mu held. What is told of an older incarnation of the
// name leaves a newer one alone.
func (x *namespaceIndex) forget(namespace metav1.Object) {
	entry, known := x.entries[namespace.GetName()]
	if !known {
		return
	}
	if entry.uid == namespace.GetUID() || isNewer(namespace.GetResourceVersion(), entry.version) {
		delete(x.entries, namespace.GetName())
	}
}

// advance is called with mu held.
func (x *namespaceIndex) advance(version string) {
	if x.delivered == "" || isNewer(version, x.delivered) {
		x.delivered = version
	}
}

// isNewer reports whether version a is higher than b. Versions that cannot be
// compared do not come from an API server (but from a simulation); there, what
// is told last is taken for the newest.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
