// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// podGroupCycle runs kube-scheduler's own cycle of a PodGroup (schedule_one_podgroup.go)
// on an engine's cache, snapshot and plugins. Of the scheduler only what surrounds the
// cycle is replaced: its queue, the search for a node, which has to be deterministic, and
// the handler of failures. Bindings, which the scheduler begins side by side, are let go on
// one after the other.
type podGroupCycle struct {
	engine    *Engine
	scheduler *scheduler.Scheduler

	// What follows is of one cycle.

	queued *framework.QueuedPodGroupInfo
	// postFilter is whether PostFilter plugins try where the group would fit without others.
	postFilter bool
	// searched is whether a node was looked for: what fails before is no plugin's fault.
	searched bool
	proposed map[types.UID]Result
	failures map[types.UID]podFailure

	// mu guards the bindings, of which each goroutine looks for its own.
	mu       sync.Mutex
	bindings []*podBinding
}

// podFailure is what the scheduler said of a member that was not placed.
type podFailure struct {
	status     *fwk.Status
	nomination *fwk.NominatingInfo
}

// podBinding is the binding cycle of a member.
type podBinding struct {
	assumed *corev1.Pod
	node    string
	// turn is closed when it may go on, and done when it is over.
	turn, done chan struct{}
	// bound is the pod as the API server has it then, nil if the binding failed.
	bound *corev1.Pod
	err   error
}

// newPodGroupCycle builds the scheduler around the engine. What it runs in the background
// ends with ctx.
func newPodGroupCycle(ctx context.Context, e *Engine) (*podGroupCycle, error) {
	s, err := newScheduler(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("building the cycle of pod groups: %w", err)
	}
	c := &podGroupCycle{engine: e, scheduler: s}
	s.Cache, s.APIDispatcher = e.cache, nil
	s.SchedulingQueue = podGroupQueue{s.SchedulingQueue, e}
	s.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return c.queued, nil }
	s.SchedulePod, s.FailureHandler = c.schedulePod, c.handleFailure
	return c, nil
}

// newScheduler returns kube-scheduler's own on the engine's snapshot. The profile, the cache
// and the informers that it brings are not to be used.
func newScheduler(ctx context.Context, e *Engine) (*scheduler.Scheduler, error) {
	unused := schedconfig.KubeSchedulerProfile{SchedulerName: "unused", Plugins: &schedconfig.Plugins{
		QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: pluginnames.PrioritySort}}},
		Permit:    schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: pluginnames.GangScheduling}}}, // its lack is logged
		Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
	}}
	return scheduler.New(ctx, e.api, informers.NewSharedInformerFactory(e.api, 0), nil,
		func(string) events.EventRecorderLogger { return e.events },
		scheduler.WithProfiles(unused), scheduler.WithNodeInfoSnapshot(e.snapshot))
}

// run runs one cycle, and the bindings that it leads to.
func (c *podGroupCycle) run(ctx context.Context, key types.NamespacedName, pods []*corev1.Pod) (*podGroupOutcome, error) {
	group := c.engine.podGroupOf(key)
	if group == nil {
		return nil, fmt.Errorf("PodGroup %s is not there", key)
	}
	members := make([]*framework.QueuedPodInfo, 0, len(pods))
	c.scheduler.Profiles = profile.Map{}
	for i, pod := range pods {
		member, err := newQueuedPod(pod, i)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
		fw, err := c.engine.frameworkFor(pod)
		if err != nil {
			return nil, err
		}
		c.scheduler.Profiles[pod.Spec.SchedulerName] = podGroupFramework{fw, c}
	}
	c.queued = newQueuedPodGroup(group, members)
	c.searched, c.bindings = false, nil
	c.proposed, c.failures = map[types.UID]Result{}, map[types.UID]podFailure{}

	c.scheduler.ScheduleOne(ctx)
	sent := c.engine.api.take()
	for _, b := range c.bindings {
		c.rejectIfWaiting(b)
		close(b.turn)
		<-b.done
	}
	for i := range sent.statusPatches {
		if err := c.engine.patchPodGroup(ctx, &sent.statusPatches[i]); err != nil {
			return nil, fmt.Errorf("PodGroup %s: %w", key, err)
		}
	}
	outcome := &podGroupOutcome{results: map[types.UID]Result{}, nominations: map[types.UID]string{}, evicted: sent.evicted, refusal: c.engine.refusal(key)}
	return outcome, c.collect(ctx, outcome, pods)
}

// collect says what became of each pod, and makes those known that were bound.
func (c *podGroupCycle) collect(ctx context.Context, outcome *podGroupOutcome, pods []*corev1.Pod) error {
	for _, b := range c.bindings {
		if b.err != nil {
			return fmt.Errorf("pod %s: %w", klog.KObj(b.assumed), b.err)
		}
		if b.bound == nil {
			continue
		}
		if err := c.engine.confirm(klog.FromContext(ctx), b.bound); err != nil {
			return err
		}
		result := c.proposed[b.assumed.UID]
		result.Pod, result.Node, result.Proposed = b.bound, b.node, ""
		outcome.results[b.assumed.UID] = result
	}
	for _, pod := range pods {
		if _, ok := outcome.results[pod.UID]; ok {
			continue
		}
		failed, ok := c.failures[pod.UID]
		switch {
		case !ok:
			return fmt.Errorf("pod %s: the cycle of its PodGroup says nothing of it", klog.KObj(pod))
		case c.searched && !failed.status.IsRejected():
			return fmt.Errorf("pod %s: %w", klog.KObj(pod), failed.status.AsError())
		}
		result := c.proposed[pod.UID]
		result.Pod, result.Message = pod, failed.status.Message()
		outcome.results[pod.UID] = result
		if failed.nomination.Mode() == fwk.ModeOverride && failed.nomination.NominatedNodeName != "" {
			outcome.nominations[pod.UID] = failed.nomination.NominatedNodeName
		}
	}
	return nil
}

// rejectIfWaiting rejects a pod that still waits in Permit for members of which no more will come.
func (c *podGroupCycle) rejectIfWaiting(b *podBinding) {
	fw := c.scheduler.Profiles[b.assumed.Spec.SchedulerName]
	if waiting := fw.GetWaitingPod(b.assumed.UID); waiting != nil {
		for _, plugin := range waiting.GetPendingPlugins() {
			waiting.Reject(plugin, "too few other members of the pod group could be reserved")
		}
	}
}

// schedulePod looks for a node for a member, as the scheduler's function of that name does.
func (c *podGroupCycle) schedulePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	c.searched = c.engine.snapshot.NumNodesInPlacement() > 0
	result, fit, err := c.engine.schedulePod(ctx, fw, state, pod.Pod, "")
	switch {
	case err != nil:
		return scheduler.ScheduleResult{}, err
	case fit != nil:
		return scheduler.ScheduleResult{}, fit
	case result.Node == "":
		return scheduler.ScheduleResult{}, scheduler.ErrNoNodesAvailable
	}
	found := scheduler.ScheduleResult{SuggestedHost: result.Node, EvaluatedNodes: result.Evaluated, FeasibleNodes: result.Feasible}
	if !c.postFilter {
		result.Proposed, result.Node = result.Node, ""
		c.proposed[pod.Pod.UID] = result
	}
	return found, nil
}

// handleFailure takes note of a member that was not placed. The scheduler calls it in the
// cycle or, if a binding failed, at the end of the binding cycle.
func (c *podGroupCycle) handleFailure(_ context.Context, _ framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nomination *fwk.NominatingInfo, _ time.Time) {
	c.failures[pod.Pod.UID] = podFailure{status, nomination}
	if b := c.bindingOf(pod.Pod.UID); b != nil {
		close(b.done)
	}
}

// bindingOf returns the binding cycle of the pod, nil if it has none.
func (c *podGroupCycle) bindingOf(uid types.UID) *podBinding {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bindings {
		if b.assumed.UID == uid {
			return b
		}
	}
	return nil
}

// podGroupFramework is a profile within the cycle of a PodGroup.
type podGroupFramework struct {
	framework.Framework

	cycle *podGroupCycle
}

// RunPodGroupPostFilterPlugins runs them. They call the search for nodes, too. Without any
// node they do not run: they count on what PreFilter plugins leave.
func (f podGroupFramework) RunPodGroupPostFilterPlugins(ctx context.Context, state *framework.CycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !f.cycle.searched {
		return nil, fwk.NewStatus(fwk.Unschedulable, scheduler.ErrNoNodesAvailable.Error())
	}
	f.cycle.postFilter = true
	defer func() { f.cycle.postFilter = false }()
	return f.Framework.RunPodGroupPostFilterPlugins(ctx, state, group, schedule)
}

// RunPermitPlugins runs the last plugins before the scheduler begins a binding cycle in the
// background.
func (f podGroupFramework) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	waits, status := f.Framework.RunPermitPlugins(ctx, state, pod, node)
	if status.IsSuccess() || status.IsWait() {
		f.cycle.mu.Lock()
		defer f.cycle.mu.Unlock()
		f.cycle.bindings = append(f.cycle.bindings, &podBinding{assumed: pod, node: node, turn: make(chan struct{}), done: make(chan struct{})})
	}
	return waits, status
}

// RunPreBindPreFlights skips PreBind, which does not run (see the package's comment).
func (podGroupFramework) RunPreBindPreFlights(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}

// WillWaitOnPermit returns false: it decides only whether a nomination is written before.
func (podGroupFramework) WillWaitOnPermit(context.Context, *corev1.Pod) bool { return false }

// WaitOnPermit waits for the pod's turn, too.
func (f podGroupFramework) WaitOnPermit(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	if b := f.cycle.bindingOf(pod.UID); b != nil {
		<-b.turn
	}
	return f.Framework.WaitOnPermit(ctx, pod)
}

// RunPreBindPlugins runs none.
func (podGroupFramework) RunPreBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

// RunBindPlugins runs them and makes the pod what the API server makes of their Binding.
func (f podGroupFramework) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	status := f.Framework.RunBindPlugins(ctx, state, pod, node)
	b, pending := f.cycle.bindingOf(pod.UID), f.cycle.engine.Pod(pod.Namespace, pod.Name)
	if b.bound, b.err = f.cycle.engine.boundPod(pending, node, status); b.err != nil && status.IsSuccess() {
		return fwk.AsStatus(b.err)
	}
	return status
}

// RunPostBindPlugins runs them, and ends the binding cycle.
func (f podGroupFramework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	f.Framework.RunPostBindPlugins(ctx, state, pod, node)
	close(f.cycle.bindingOf(pod.UID).done)
}

// podGroupQueue is the scheduler's queue, in which nothing is: nominations are the
// engine's, and nothing comes back into it.
type podGroupQueue struct {
	schedqueue.SchedulingQueue

	engine *Engine
}

// AddNominatedPod nominates the pod.
func (q podGroupQueue) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, nomination *fwk.NominatingInfo) {
	q.engine.nominator.AddNominatedPod(logger, pod, nomination)
}

// DeleteNominatedPodIfExists ends the nomination of the pod.
func (q podGroupQueue) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	q.engine.nominator.DeleteNominatedPodIfExists(pod)
}

// UpdateNominatedPod replaces a nominated pod.
func (q podGroupQueue) UpdateNominatedPod(logger klog.Logger, old *corev1.Pod, updated fwk.PodInfo) {
	q.engine.nominator.UpdateNominatedPod(logger, old, updated)
}

// NominatedPodsForNode returns the pods that are nominated for the node.
func (q podGroupQueue) NominatedPodsForNode(node string) []fwk.PodInfo {
	return q.engine.nominator.NominatedPodsForNode(node)
}

// Activate takes note of the pods.
func (q podGroupQueue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.engine.activated.Activate(logger, pods)
}

// AddAttemptedPodGroupIfNeeded does nothing: [Engine.SchedulePodGroup] tries again.
func (podGroupQueue) AddAttemptedPodGroupIfNeeded(klog.Logger, *framework.QueuedPodGroupInfo, int64, *fwk.Status) error {
	return nil
}

// MoveAllToActiveOrBackoffQueue does nothing: nobody waits.
func (podGroupQueue) MoveAllToActiveOrBackoffQueue(klog.Logger, fwk.ClusterEvent, any, any, schedqueue.PreEnqueueCheck) {
}
