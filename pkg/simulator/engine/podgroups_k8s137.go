// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package engine

import (
	"context"
	"slices"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// GangGates returns the feature gates with which kube-scheduler places PodGroups. They
// must be set before a configuration is decoded: they add a plugin to the default ones.
func GangGates() map[string]bool { return map[string]bool{string(features.GenericWorkload): true} }

// podGroupOf returns the PodGroup as the API server would have it now, or nil.
func (e *Engine) podGroupOf(key types.NamespacedName) *schedulingv1beta1.PodGroup {
	obj, ok, err := e.informers.byResource["podgroups"].GetIndexer().GetByKey(key.String())
	if err != nil || !ok {
		return nil
	}
	group, _ := obj.(*schedulingv1beta1.PodGroup)
	return group
}

// setPodGroup has the cache know an object that is a PodGroup; old is nil if it is new.
func (e *Engine) setPodGroup(logger klog.Logger, old any, object runtime.Object) {
	group, ok := object.(*schedulingv1beta1.PodGroup)
	if !ok {
		return
	}
	if before, ok := old.(*schedulingv1beta1.PodGroup); ok {
		e.cache.UpdatePodGroup(logger, before, group)
	} else {
		e.cache.AddPodGroup(group)
	}
}

// removePodGroup has the cache forget an object that is a PodGroup.
func (e *Engine) removePodGroup(logger klog.Logger, object runtime.Object) {
	if group, ok := object.(*schedulingv1beta1.PodGroup); ok {
		e.cache.RemovePodGroup(logger, group)
	}
}

// SetMinCount sets how many members of a PodGroup start together at least; 0 lets them
// start one by one. A PodGroup that is not there is created.
func (e *Engine) SetMinCount(ctx context.Context, namespace, name string, minCount int) error {
	group := e.podGroupOf(types.NamespacedName{Namespace: namespace, Name: name})
	if group == nil {
		group = &schedulingv1beta1.PodGroup{}
		group.Namespace, group.Name, group.UID = namespace, name, types.UID("podgroup/"+namespace+"/"+name)
	}
	group = group.DeepCopy()
	group.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	if minCount > 0 {
		group.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minCount)}} //nolint:gosec // a number of pods
	}
	return e.Set(ctx, group)
}

// newQueuedPodGroup returns the members, at least one, as the queue hands them out. The group
// arrives with the member that completes it: before that, the plugin GangScheduling keeps it
// out of the queue.
func newQueuedPodGroup(group *schedulingv1beta1.PodGroup, members []*framework.QueuedPodInfo) *framework.QueuedPodGroupInfo {
	queued := &framework.QueuedPodGroupInfo{PodGroupInfo: &framework.PodGroupInfo{
		Namespace: group.Namespace, Name: group.Name, Type: fwk.PodGroupKeyType, PodGroup: group,
	}}
	arrivals := make([]time.Time, 0, len(members))
	for _, member := range members {
		queued.AddPod(member)
		arrivals = append(arrivals, member.Timestamp)
	}
	complete := 1
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		complete = int(gang.MinCount)
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	queued.Timestamp = arrivals[min(max(complete, 1), len(arrivals))-1]
	return queued
}

// queuedEntity is what the queue compares with others.
type queuedEntity = framework.QueuedEntityInfo

// queuedEntityOf returns the PodGroup of the pods, or the one pod.
func (e *Engine) queuedEntityOf(members []*framework.QueuedPodInfo) queuedEntity {
	if e.IsMember(members[0].Pod) {
		if group := e.podGroupOf(podGroupKey(members[0].Pod)); group != nil {
			return newQueuedPodGroup(group, members)
		}
	}
	return members[0]
}

// hasPodGroup reports whether the PodGroup is there.
func (e *Engine) hasPodGroup(key types.NamespacedName) bool { return e.podGroupOf(key) != nil }

var _ fwk.PodGroupPostFilterPlugin = optionalPreemption{}

// PodGroupPostFilter preempts for a PodGroup, or finds nothing.
func (p optionalPreemption) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !*p.on {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.DefaultPreemption.PodGroupPostFilter(ctx, state, group, schedule)
}

// patchPodGroup makes the status of the PodGroup what the scheduler has written, and
// returns why it could not place the PodGroup, as a condition of the PodGroup says; empty
// if it could.
func (e *Engine) patchPodGroup(ctx context.Context, key types.NamespacedName, patches [][]byte) (string, error) {
	for _, patch := range patches {
		group := e.podGroupOf(key)
		patched := &schedulingv1beta1.PodGroup{}
		if err := mergePatch(group, patch, patched); err != nil {
			return "", err
		}
		if err := e.Set(ctx, patched); err != nil {
			return "", err
		}
	}
	condition := meta.FindStatusCondition(e.podGroupOf(key).Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	if condition == nil || condition.Status == metav1.ConditionTrue {
		return "", nil
	}
	return condition.Message, nil
}

// RunPodGroupPostFilterPlugins runs them. They call the search for nodes, too. Without any
// node they do not run: they count on what PreFilter plugins leave.
func (f cycleFramework) RunPodGroupPostFilterPlugins(ctx context.Context, state *framework.CycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !f.cycle.searched {
		return nil, fwk.NewStatus(fwk.Unschedulable, scheduler.ErrNoNodesAvailable.Error())
	}
	f.cycle.postFilter = true
	defer func() { f.cycle.postFilter = false }()
	return f.Framework.RunPodGroupPostFilterPlugins(ctx, state, group, schedule)
}

// setNext sets what the scheduler schedules next.
func setNext(s *scheduler.Scheduler, next func() queuedEntity) {
	s.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return next(), nil }
}

// AddAttemptedPodGroupIfNeeded does nothing: [Engine.SchedulePodGroup] tries again.
func (noQueue) AddAttemptedPodGroupIfNeeded(klog.Logger, *framework.QueuedPodGroupInfo, int64, *fwk.Status) error {
	return nil
}
