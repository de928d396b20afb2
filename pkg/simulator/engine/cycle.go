// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
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
		return Result{Pod: pod, Message: message}, err
	}
	var victims []*corev1.Pod
	for attempt := 1; ; attempt++ {
		result, failure, err := e.schedulingCycle(ctx, fw, pod, chosen)
		if err != nil {
			return Result{}, fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
		}
		if failure == nil {
			result.Victims = victims
			return result, nil
		}
		if chosen != "" {
			return Result{}, fmt.Errorf("pod %s: node %q is not feasible: %s", klog.KObj(pod), chosen, result.Message)
		}
		evicted, again, err := e.postFilter(ctx, fw, pod, failure)
		if err != nil {
			return Result{}, fmt.Errorf("pod %s: running PostFilter plugins: %w", klog.KObj(pod), err)
		}
		victims = append(victims, evicted...)
		if !again || attempt == maxAttempts {
			// The message now has what they found, too.
			result.Message, result.Victims = failure.fit.Error(), victims
			return result, nil
		}
		pod = e.Pod(pod.Namespace, pod.Name) // it may be nominated now
	}
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

// create returns the pod as it is known, and makes it known if it is not.
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
	return pod, nil
}

// maxAttempts bounds how often a pod is tried because plugins want it to be.
const maxAttempts = 16

// failure is a cycle in which no node was found.
type failure struct {
	fit   *framework.FitError
	state fwk.CycleState
}

// schedulingCycle runs one scheduling cycle and, if it found a node, the binding cycle. The
// failure is nil if the pod was bound, or if no eviction could be of use. chosen is
// the node that is to be chosen, or empty.
func (e *Engine) schedulingCycle(ctx context.Context, fw framework.Framework, pod *corev1.Pod, chosen string) (Result, *failure, error) {
	result := Result{Pod: pod}
	logger := klog.FromContext(ctx)
	if err := e.cache.UpdateSnapshot(logger, e.snapshot); err != nil {
		return result, nil, err
	}
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	found, fit, err := e.schedulePod(ctx, fw, state, pod, chosen)
	node := found.Node
	found.Pod, found.Node = pod, ""
	switch {
	case err != nil:
		return result, nil, err
	case fit != nil:
		found.Message = fit.Error()
		return found, &failure{fit: fit, state: state}, nil
	case node == "":
		found.Message = scheduler.ErrNoNodesAvailable.Error()
		return found, nil, nil
	}
	return e.assumeAndBind(ctx, fw, state, found, node)
}

// schedulePod looks for a node for the pod in the snapshot. The result has the node and how
// it was found; if there is none, the error says why. Neither is there in a cluster without
// nodes.
func (e *Engine) schedulePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod, chosen string) (Result, *framework.FitError, error) {
	var result Result
	if e.snapshot.NumNodesInPlacement() == 0 {
		return result, nil, nil
	}
	found, err := e.findNodesThatFitPod(ctx, fw, state, pod)
	if err != nil {
		return result, nil, err
	}
	result.Feasible, result.Evaluated = len(found.feasible), found.evaluated()
	if len(found.feasible) == 0 {
		return result, &framework.FitError{Pod: pod, NumAllNodes: e.snapshot.NumNodesInPlacement(), Diagnosis: found.diagnosis()}, nil
	}
	result.Node, result.Scores, err = e.selectHost(ctx, fw, state, pod, found.feasible, chosen)
	return result, nil, err
}

// assumeAndBind runs what comes after the choice of a node: assume, Reserve, Permit, Bind.
func (e *Engine) assumeAndBind(ctx context.Context, fw framework.Framework, state fwk.CycleState, result Result, node string) (Result, *failure, error) {
	logger := klog.FromContext(ctx)
	pending := result.Pod
	assumed := pending.DeepCopy()
	assumed.Spec.NodeName = node
	if err := e.cache.AssumePod(logger, assumed); err != nil {
		return result, nil, fmt.Errorf("assuming it on node %q: %w", node, err)
	}
	e.nominator.DeleteNominatedPodIfExists(assumed)

	status := fw.RunReservePluginsReserve(ctx, state, assumed, node)
	if status.IsSuccess() {
		var waits map[string]time.Duration
		if waits, status = fw.RunPermitPlugins(ctx, state, assumed, node); status.IsWait() {
			status = fwk.AsStatus(fmt.Errorf("plugin(s) %v let pods wait in Permit for each other, which cannot be simulated", slices.Sorted(maps.Keys(waits))))
		}
	}
	if status.IsSuccess() {
		status = fw.RunBindPlugins(ctx, state, assumed, node)
	}
	bound, err := e.boundPod(pending, node, status)
	if err != nil || bound == nil {
		fw.RunReservePluginsUnreserve(ctx, state, assumed, node)
		if forgetErr := e.cache.ForgetPod(logger, assumed); forgetErr != nil {
			return result, nil, errors.Join(err, forgetErr)
		}
		if err != nil {
			return result, nil, err
		}
		// The same error as the scheduler's: it counts the one node.
		fit := &framework.FitError{Pod: pending, NumAllNodes: 1, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}
		fit.Diagnosis.NodeToStatus.Set(node, status)
		fit.Diagnosis.AddPluginStatus(status)
		result.Message = fit.Error()
		return result, nil, nil
	}
	fw.RunPostBindPlugins(ctx, state, assumed, node)
	if err := e.confirm(logger, bound); err != nil {
		return result, nil, err
	}
	result.Pod, result.Node = bound, node
	return result, nil, nil
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

// postFilter runs the PostFilter plugins, carries out what they evict, and
// nominates the pod. The pod is to be tried again if that changed anything, or if
// a plugin has sent it back to the queue.
func (e *Engine) postFilter(ctx context.Context, fw framework.Framework, pod *corev1.Pod, failed *failure) (victims []*corev1.Pod, again bool, err error) {
	if !fw.HasPostFilterPlugins() {
		return nil, false, nil
	}
	e.activated.uids.Clear()
	nominated, status := fw.RunPostFilterPlugins(ctx, failed.state, pod, failed.fit.Diagnosis.NodeToStatus)
	if e.preempts { // otherwise it only says that nothing was tried
		failed.fit.Diagnosis.PostFilterMsg = status.Message()
	}
	if status.Code() == fwk.Error {
		// The scheduler logs it, and the pod waits. So it is for every pod that a PreFilter
		// plugin refuses before DynamicResources was asked.
		klog.FromContext(ctx).V(2).Info("A PostFilter plugin failed", "pod", klog.KObj(pod), "err", status.AsError())
		return nil, false, nil
	}
	if victims, err = e.evict(ctx, e.api.take().evicted); err != nil {
		return nil, false, err
	}
	_, activated := e.activated.uids.Load(pod.UID)
	again = len(victims) > 0 || activated
	if nominated != nil && nominated.NominatingInfo != nil && nominated.Mode() != fwk.ModeNoop {
		_, err = e.nominate(ctx, pod, nominated.NominatedNodeName)
	}
	return victims, again, err
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
	if err := e.informers.byResource["pods"].set(updated, false); err != nil {
		return pod, err
	}
	e.cache.UpdatePodGroupMember(klog.FromContext(ctx), pod, updated)
	e.nominator.DeleteNominatedPodIfExists(pod)
	return updated, e.observe(klog.FromContext(ctx), updated)
}
