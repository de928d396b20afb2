// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// PodGroupResult is what became of the pending pods of a PodGroup.
type PodGroupResult struct {
	// Members are the results of the single pods, in the order in which the pods were
	// given. The first has all victims.
	Members []Result
	// Message says why the scheduler could not place the PodGroup, as the condition
	// PodGroupInitiallyScheduled of the PodGroup does. Empty if it could, if it could once
	// before, or if the pods never came out of the queue.
	Message string
}

// PlacesPodGroups reports whether the engine places the members of a PodGroup in one
// cycle, as the scheduler does with the feature gates [GangGates]. Otherwise it places
// them one by one, as the scheduler does without.
func (e *Engine) PlacesPodGroups() bool { return e.podGroups }

// IsMember reports whether the pod is placed with the other members of its PodGroup.
func (e *Engine) IsMember(pod *corev1.Pod) bool {
	return e.podGroups && pod.Spec.SchedulingGroup != nil && pod.Spec.SchedulingGroup.PodGroupName != nil
}

// podGroupKey names the PodGroup of a member.
func podGroupKey(member *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: member.Namespace, Name: *member.Spec.SchedulingGroup.PodGroupName}
}

// byPodGroup puts the members of each PodGroup together, where the first of them stands.
func (e *Engine) byPodGroup(pods []*corev1.Pod) [][]*corev1.Pod {
	var all [][]*corev1.Pod
	at := map[types.NamespacedName]int{}
	for _, pod := range pods {
		if !e.IsMember(pod) {
			all = append(all, []*corev1.Pod{pod})
		} else if i, ok := at[podGroupKey(pod)]; ok {
			all[i] = append(all[i], pod)
		} else {
			at[podGroupKey(pod)] = len(all)
			all = append(all, []*corev1.Pod{pod})
		}
	}
	return all
}

// SchedulePodGroup is [Engine.Schedule] of several members of one PodGroup at once: they
// arrive, and kube-scheduler's cycle for PodGroups places as many as it can or, if they
// are fewer than the PodGroup's minCount with those that have a node, none. Members that
// are known and not given have no part in it, but for counting as members.
func (e *Engine) SchedulePodGroup(ctx context.Context, pods []*corev1.Pod) (PodGroupResult, error) {
	if err := ctx.Err(); err != nil {
		return PodGroupResult{}, err
	}
	if len(pods) == 0 || !e.IsMember(pods[0]) {
		return PodGroupResult{}, errors.New("no members of a PodGroup are given")
	}
	key := podGroupKey(pods[0])
	pods = slices.Clone(pods)
	for i, pod := range pods {
		var err error
		if pods[i], err = e.createMember(ctx, key, pod); err != nil {
			return PodGroupResult{}, err
		}
	}
	if result, err := e.keptOutOfQueue(ctx, key, pods); result != nil || err != nil {
		return *result, err
	}
	result, err := e.place(ctx, pods, "")
	if err != nil {
		return PodGroupResult{}, fmt.Errorf("PodGroup %s: %w", key, err)
	}
	return result, nil
}

// createMember has the pod of the PodGroup arrive, if it can be simulated.
func (e *Engine) createMember(ctx context.Context, key types.NamespacedName, pod *corev1.Pod) (*corev1.Pod, error) {
	if !e.IsMember(pod) || podGroupKey(pod) != key {
		return nil, fmt.Errorf("pod %s is no member of PodGroup %s", klog.KObj(pod), key)
	}
	fw, err := e.frameworkFor(pod)
	if err != nil {
		return nil, err
	}
	needs := e.needs[fw.ProfileName()]
	if err := needs.checkPod(pod); err != nil {
		return nil, err
	}
	if !e.hasPodGroup(key) {
		if err := needs.require(pluginnames.GangScheduling, "podgroups", fmt.Sprintf("pod %s has spec.schedulingGroup", klog.KObj(pod))); err != nil {
			return nil, err
		}
	}
	return e.create(ctx, pod)
}

// keptOutOfQueue returns the result of members that do not enter the queue, nil if they do. One
// of them is enough to keep all of them out.
func (e *Engine) keptOutOfQueue(ctx context.Context, key types.NamespacedName, pods []*corev1.Pod) (*PodGroupResult, error) {
	messages, first := make([]string, len(pods)), ""
	for i, pod := range pods {
		fw, err := e.frameworkFor(pod)
		if err != nil {
			return &PodGroupResult{}, err
		}
		if messages[i], err = runPreEnqueuePlugins(ctx, fw, pod); err != nil {
			return &PodGroupResult{}, err
		}
		messages[i] = e.withMissingTemplate(pod, messages[i])
		if messages[i] != "" && first == "" {
			first = fmt.Sprintf("pod %s, another member of the pod group, waits: %s", klog.KObj(pod), messages[i])
		}
	}
	if first == "" && !e.hasPodGroup(key) {
		first = fmt.Sprintf("PodGroup %s does not exist", key)
	}
	if first == "" {
		return nil, nil //nolint:nilnil // nothing keeps them out
	}
	result := &PodGroupResult{}
	for i, pod := range pods {
		if messages[i] == "" {
			messages[i] = first
		}
		result.Members = append(result.Members, Result{Pod: pod, Message: messages[i]})
	}
	return result, nil
}

// TryPodGroup is [Engine.SchedulePodGroup] without preemption, whatever
// [Options.Preemption] says.
func (e *Engine) TryPodGroup(ctx context.Context, pods []*corev1.Pod) (PodGroupResult, error) {
	preempts := e.preempts
	e.preempts = false
	defer func() { e.preempts = preempts }()
	return e.SchedulePodGroup(ctx, pods)
}
