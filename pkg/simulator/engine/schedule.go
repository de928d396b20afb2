// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Schedule lets a pod arrive and tries once to place it. A pod that is not known
// yet is created first, pending. The pod itself is not changed: Result.Pod is what
// became of it. One that was not placed stays pending until it is given to Schedule
// again or to [Engine.Delete].
//
// That a pod fits nowhere is a Result. An error is what ends a simulation: a
// plugin that failed, a pod that has a node already or is no profile's, or ctx.
//
// A member of a PodGroup is placed as by [Engine.SchedulePodGroup].
func (e *Engine) Schedule(ctx context.Context, pod *corev1.Pod) (Result, error) {
	if e.IsMember(pod) {
		group, err := e.SchedulePodGroup(ctx, []*corev1.Pod{pod})
		if err != nil {
			return Result{}, err
		}
		return group.Members[0], nil
	}
	return e.schedule(ctx, pod, "")
}

// ScheduleOn is Schedule with the choice made: among the feasible nodes the pod
// gets the one of that name. Everything else is as for Schedule, filters and
// scores included, so that decisions which a scheduler took elsewhere can be
// followed one by one and compared. It is an error if the node is not feasible.
func (e *Engine) ScheduleOn(ctx context.Context, pod *corev1.Pod, node string) (Result, error) {
	if node == "" {
		return Result{}, fmt.Errorf("pod %s: no node is given", klog.KObj(pod))
	}
	return e.schedule(ctx, pod, node)
}

func (e *Engine) schedule(ctx context.Context, pod *corev1.Pod, chosen string) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	fw, err := e.frameworkFor(pod)
	if err != nil {
		return Result{}, err
	}
	if err := e.needs[fw.ProfileName()].checkPod(pod); err != nil {
		return Result{}, err
	}
	if pod, err = e.create(ctx, pod); err != nil {
		return Result{}, err
	}
	if message, err := runPreEnqueuePlugins(ctx, fw, pod); err != nil || message != "" {
		return Result{Pod: pod, Message: e.withMissingTemplate(pod, message)}, err
	}
	placed, err := e.place(ctx, []*corev1.Pod{pod}, chosen)
	if err != nil {
		return Result{}, err
	}
	result := placed.Members[0]
	if chosen != "" && result.Node == "" {
		return Result{}, fmt.Errorf("pod %s: node %q is not feasible: %s", klog.KObj(pod), chosen, result.Message)
	}
	return result, nil
}

// maxAttempts bounds how often a pod is tried because plugins want it to be.
const maxAttempts = 16

// place runs cycles for a pod, or for members of a PodGroup, until nothing changes any more.
func (e *Engine) place(ctx context.Context, pods []*corev1.Pod, chosen string) (PodGroupResult, error) {
	var result PodGroupResult
	var victims []*corev1.Pod
	results, pending := map[types.UID]Result{}, pods
	for range maxAttempts {
		e.activated.uids.Clear()
		outcome, err := e.cycle.run(ctx, pending, chosen)
		if err != nil {
			return result, err
		}
		result.Message = outcome.message
		evicted, err := e.evict(ctx, outcome.evicted)
		if err != nil {
			return result, err
		}
		victims = append(victims, evicted...)
		again := len(evicted) > 0 || outcome.claimsChanged
		var left []*corev1.Pod
		for _, pod := range pending {
			r := outcome.results[pod.UID]
			if node, ok := outcome.nominations[pod.UID]; ok {
				if r.Pod, err = e.nominate(ctx, pod, node); err != nil {
					return result, err
				}
			}
			results[pod.UID] = r
			if r.Node == "" {
				left = append(left, r.Pod)
				_, activated := e.activated.uids.Load(pod.UID)
				again = again || activated
			}
		}
		// Members that are left over come back at once, and may preempt on their own.
		if again = again || e.preempts && len(left) < len(pending); len(left) == 0 || !again {
			break
		}
		pending = left
	}
	for _, pod := range pods {
		result.Members = append(result.Members, results[pod.UID])
	}
	result.Members[0].Victims = victims
	return result, nil
}

// runPreEnqueuePlugins asks the PreEnqueue plugins whether the pod may enter the queue, and returns
// why not.
func runPreEnqueuePlugins(ctx context.Context, fw framework.Framework, pod *corev1.Pod) (string, error) {
	for _, plugin := range fw.PreEnqueuePlugins() {
		switch status := plugin.PreEnqueue(ctx, pod); {
		case status.IsSuccess() || status.IsSkip():
		case status.IsRejected():
			return status.Message(), nil
		default:
			return "", fmt.Errorf("pod %s: running PreEnqueue plugin %q: %w", klog.KObj(pod), plugin.Name(), status.AsError())
		}
	}
	return "", nil
}

// create returns the pod as it is known, and makes it known if it is not, with its claims.
func (e *Engine) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	if known := e.Pod(pod.Namespace, pod.Name); known != nil {
		pod = known
	} else {
		if pod.UID == "" {
			return nil, fmt.Errorf("pod %s: metadata.uid: required, because plugins tell pods apart by it", klog.KObj(pod))
		}
		if err := e.informers.byResource["pods"].set(pod, false); err != nil {
			return nil, err
		}
		if pod.Spec.NodeName == "" {
			if err := e.observe(klog.FromContext(ctx), pod); err != nil {
				return nil, err
			}
		}
	}
	if pod.Spec.NodeName != "" {
		return nil, fmt.Errorf("pod %s: spec.nodeName: it is on node %q already", klog.KObj(pod), pod.Spec.NodeName)
	}
	return e.createClaims(ctx, pod)
}

// confirm does what the API server's event of a bound pod does: first it comes to the
// plugins, then to the cache, as their handlers were added.
func (e *Engine) confirm(logger klog.Logger, bound *corev1.Pod) error {
	if err := e.informers.byResource["pods"].set(bound, false); err != nil {
		return err
	}
	if err := e.cache.AddPod(logger, bound); err != nil {
		return fmt.Errorf("confirming it on node %q: %w", bound.Spec.NodeName, err)
	}
	return nil
}

// boundPod returns the pod as the API server would write it for the Binding that
// was sent. It is nil if a plugin refused the pod, and an error if one failed.
func (e *Engine) boundPod(pending *corev1.Pod, node string, status *fwk.Status) (*corev1.Pod, error) {
	bindings := e.api.take().bindings
	switch {
	case status.IsRejected():
		return nil, nil
	case !status.IsSuccess():
		return nil, fmt.Errorf("binding to node %q: %w", node, status.AsError())
	}
	if len(bindings) != 1 || bindings[0].Name != pending.Name || bindings[0].Target.Name != node {
		return nil, fmt.Errorf("binding to node %q: the Bind plugins sent %d Bindings instead of this one", node, len(bindings))
	}
	bound := pending.DeepCopy()
	bound.Spec.NodeName = node
	bound.Status.NominatedNodeName = ""
	for key, value := range bindings[0].Annotations {
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, key, value)
	}
	return bound, nil
}

// evict deletes the pods that plugins have evicted, and returns those that were there.
func (e *Engine) evict(ctx context.Context, evicted []types.NamespacedName) ([]*corev1.Pod, error) {
	slices.SortFunc(evicted, func(a, b types.NamespacedName) int { // they came in parallel
		return strings.Compare(a.String(), b.String())
	})
	var victims []*corev1.Pod
	for _, key := range evicted {
		victim := e.Pod(key.Namespace, key.Name)
		if victim == nil {
			continue
		}
		if err := e.Delete(ctx, key.Namespace, key.Name); err != nil {
			return nil, err
		}
		victims = append(victims, victim)
	}
	return victims, nil
}

// nominate makes the node the pod's status.nominatedNodeName, and returns the pod as it is
// then.
func (e *Engine) nominate(ctx context.Context, pod *corev1.Pod, node string) (*corev1.Pod, error) {
	if node == pod.Status.NominatedNodeName {
		return pod, nil
	}
	updated := pod.DeepCopy()
	updated.Status.NominatedNodeName = node
	return updated, e.updatePending(ctx, pod, updated)
}

// updatePending makes a pod without a node what it is after a change.
func (e *Engine) updatePending(ctx context.Context, pod, updated *corev1.Pod) error {
	if err := e.informers.byResource["pods"].set(updated, false); err != nil {
		return err
	}
	e.cache.UpdatePodGroupMember(klog.FromContext(ctx), pod, updated)
	e.nominator.DeleteNominatedPodIfExists(pod)
	return e.observe(klog.FromContext(ctx), updated)
}
