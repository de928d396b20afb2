// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "Colocation"

// Colocation is the plugin. See the package comment.
type Colocation struct {
	handle fwk.Handle
	policy *policy
	// instance is shared with every profile of this scheduler instance.
	instance *instanceState
	counters counters
	ranker   *ranker
}

var (
	_ fwk.PreFilterPlugin     = &Colocation{}
	_ fwk.PreFilterExtensions = &Colocation{}
	_ fwk.FilterPlugin        = &Colocation{}
	_ fwk.PreScorePlugin      = &Colocation{}
	_ fwk.ScorePlugin         = &Colocation{}
	_ fwk.ReservePlugin       = &Colocation{}
	_ fwk.EnqueueExtensions   = &Colocation{}
	_ fwk.SignPlugin          = &Colocation{}
)

// Name returns the name of the plugin.
func (pl *Colocation) Name() string { return Name }

// New builds the plugin from args, which must be *config.ColocationArgs and valid;
// the error names every field that is not. It adds event handlers to the handle's
// informers of pods, nodes, Services, EndpointSlices and namespaces, once for all
// profiles of one informer factory.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	colocationArgs, ok := args.(*config.ColocationArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.ColocationArgs, got %T", args)
	}
	// The root of the paths is the kind: which profile the args belong to is not
	// known here.
	if err := validation.ValidateColocationArgs(field.NewPath(Name+"Args"), colocationArgs); err != nil {
		return nil, err
	}
	if handle.SharedInformerFactory() == nil {
		return nil, fmt.Errorf("%s needs a framework with an informer factory", Name)
	}
	policy, err := newPolicy(colocationArgs)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	instance, err := instanceOf(ctx, handle)
	if err != nil {
		return nil, fmt.Errorf("watching what is behind Services: %w", err)
	}
	theDriftCollector.add(ctx, handle.ProfileName(), instance.index)
	return &Colocation{
		handle:   handle,
		policy:   policy,
		instance: instance,
		counters: newCounters(handle.ProfileName()),
		ranker:   newRanker(instance.index),
	}, nil
}

// EventsToRegister returns the events of pods and nodes that can make a pod
// schedulable that the plugin rejected. Services, EndpointSlices and namespaces
// activate pods by themselves: see the package comment.
func (pl *Colocation) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		// Add: a peer gets a node. Update: a pod becomes a peer by its labels; or the
		// pending pod itself is corrected, and there is no event for annotations alone.
		// Delete: the last peer of a Service that the pod itself is behind.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn: pl.isSchedulableAfterPodChange,
		},
		// A new node may be where peers are, or be the first with a topology key; so
		// may one whose labels changed. Pods on a node that is gone are no peers. A
		// taint never matters here; but the scheduler adds UpdateNodeTaint by itself to
		// a plugin that registers Add without it, with a hint that always wakes the
		// pod, so it is registered with our own (kubernetes/kubernetes#109437).
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint},
			QueueingHintFn: pl.isSchedulableAfterNodeChange,
		},
	}, nil
}

// SignPod signs the pods that ask for nothing, all alike. Where the others fit
// depends on where other pods are, which no signature can say.
func (pl *Colocation) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	r, err := pl.requestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what the pod asks to be near is not known")
	}
	if len(r.terms) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod's node depends on where other pods are")
	}
	return nil, nil
}

// Reserve lets the pod attract others from now on, whether or not it asks for
// anything itself. That nodes were rejected for it is over: another one fits.
func (pl *Colocation) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	pl.countPlacement(state, nodeName)
	pl.instance.waiting.accept(pod.UID)
	pl.instance.index.Reserve(pod, nodeName)
	return nil
}

// Unreserve takes that back. Called again, or for a pod that was not reserved, it
// does nothing.
func (pl *Colocation) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	pl.instance.index.Unreserve(pod.UID)
}

// isSchedulableAfterPodChange queues the pod if it was itself corrected, or if
// because of another pod the index answers otherwise than in the pod's last attempt
// such that it may have a node.
//
// The index is brought up to the event before the answer is given: PreFilter must
// not see less than what woke the pod. It is compared with what it answered in that
// attempt and not with what it was before the event, which another goroutine may have
// told it of already: so the answer is the same however often and however late it is
// asked for.
func (pl *Colocation) isSchedulableAfterPodChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	seen := pl.instance.eventSeen(oldObj, newObj, func() { pl.instance.syncPod(old, updated) })
	r := pl.instance.waiting.rejectionOf(pod.UID)
	if updated != nil && updated.UID == pod.UID {
		if old == nil || pl.requestDiffers(old, updated) || r != nil && r.isSchedulableAfter(noPeerChange) {
			logger.V(5).Info("Pod was updated, and asks for something else now", "pod", klog.KObj(pod))
			return fwk.Queue, nil
		}
		logger.V(5).Info("Pod was updated, but asks for the same", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	switch {
	case !peerDiffers(old, updated):
		return fwk.QueueSkip, nil
	case r == nil:
		logger.V(5).Info("Another pod changed, and what the pod was rejected for is not known", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	case !r.waitsForAny(seen.services):
		// Most pods of a cluster: thousands of waiting ones are asked about each.
		if loggerV := logger.V(5); loggerV.Enabled() {
			loggerV.Info("Another pod changed, which is behind no Service that the pod waits for", "pod", klog.KObj(pod))
		}
		return fwk.QueueSkip, nil
	case r.isSchedulableAfter(pl.instance.peersOn(peerNode(updated))):
		logger.V(5).Info("Another pod changed, and the pod may fit now", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	}
	logger.V(5).Info("Another pod changed, but that does not help the pod", "pod", klog.KObj(pod))
	return fwk.QueueSkip, nil
}

// requestDiffers reports whether two versions of a pending pod differ in what the
// plugin reads of it.
func (pl *Colocation) requestDiffers(old, updated *corev1.Pod) bool {
	for _, key := range readAnnotations {
		if plugin.AnnotationDiffers(old.Annotations, updated.Annotations, key) {
			return true
		}
	}
	return pl.policy.selectionDiffers(old, updated)
}

// peerDiffers reports whether two versions of another pod, either nil, differ in
// where it counts or for whom. It spares the rest for the bulk of the events, which
// are about status.
func peerDiffers(old, updated *corev1.Pod) bool {
	from, to := peerNode(old), peerNode(updated)
	return from != to || to != "" && (old.UID != updated.UID || !maps.Equal(old.Labels, updated.Labels))
}

// peerNode returns the node where a pod counts as a peer. It is empty for a pod that
// is nil, not bound, terminating or terminated.
func peerNode(pod *corev1.Pod) string {
	if pod == nil || pod.DeletionTimestamp != nil || podphase.IsTerminated(pod) {
		return ""
	}
	return pod.Spec.NodeName
}

// isSchedulableAfterNodeChange queues the pod if the node is acceptable now and was
// not in the pod's last attempt, or was not there; or if it has peers that count
// elsewhere now, such that the pod may have a node.
func (pl *Colocation) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.instance.eventSeen(oldObj, newObj, func() { pl.instance.nodeChanged(old, updated) })
	if old != nil && updated != nil && maps.Equal(old.Labels, updated.Labels) {
		logger.V(5).Info("Node was updated, but not its labels", "pod", klog.KObj(pod), "node", klog.KObj(updated))
		return fwk.QueueSkip, nil
	}
	switch r := pl.instance.waiting.rejectionOf(pod.UID); {
	case r == nil:
		logger.V(5).Info("Node changed, and what the pod was rejected for is not known", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	case !r.isSchedulableAfterNode(old, updated):
		logger.V(5).Info("Node changed, but that does not help the pod", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Node changed, and the pod may fit now", "pod", klog.KObj(pod))
	return fwk.Queue, nil
}
