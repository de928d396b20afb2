// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// cycle runs kube-scheduler's own cycles, of a pod and of a PodGroup (schedule_one.go and
// schedule_one_podgroup.go), on an engine's plugins. Only what surrounds them is replaced:
// the queue, the search for a node, which has to be deterministic, and the handler of
// failures. The scheduler starts bindings in the background: here they run one after the
// other before the cycle ends.
type cycle struct {
	engine    *Engine
	scheduler *scheduler.Scheduler
	// upstreamSearch is the scheduler's own search for a node.
	upstreamSearch searchFunc

	// What follows is of one cycle.

	queued queuedEntity
	// group is whether the cycle is of a PodGroup.
	group bool
	// chosen is the node to take, if it is feasible; empty: the best.
	chosen string
	// postFilter is whether PostFilter plugins try where a PodGroup would fit without others.
	postFilter bool
	// searched is whether a node was looked for: what fails before is no plugin's fault.
	searched bool
	found    map[types.UID]Result
	failures map[types.UID]podFailure

	// mu guards the bindings: each goroutine looks for its own.
	mu       sync.Mutex
	bindings []*podBinding
}

// searchFunc has the type of [scheduler.Scheduler.SchedulePod].
type searchFunc = func(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error)

// podFailure is why the scheduler did not place a pod.
type podFailure struct {
	status     *fwk.Status
	nomination *fwk.NominatingInfo
}

// podBinding is the binding cycle of a pod.
type podBinding struct {
	assumed *corev1.Pod
	node    string
	// turn is closed when it may go on, and done when it is over.
	turn, done chan struct{}
	// bound is the pod as the API server has it then, nil if the binding failed.
	bound *corev1.Pod
	err   error
}

// cycleOutcome is the result of one cycle.
type cycleOutcome struct {
	results     map[types.UID]Result
	nominations map[types.UID]string
	evicted     []types.NamespacedName
	// message says why the scheduler could not place the PodGroup.
	message string
	// claimsChanged is whether plugins wrote claims before a pod was bound: PostFilter took
	// allocations back, for example.
	claimsChanged bool
}

// newCycle builds the scheduler. Its cache and its snapshot are the engine's, too; the
// profile and the informers that it brings are not used. What it runs in the background
// ends with ctx.
func newCycle(ctx context.Context, e *Engine, percentageOfNodesToScore *int32) (*cycle, error) {
	const unused = "unused"
	plugins := &schedconfig.Plugins{
		QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: pluginnames.PrioritySort}}},
		Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
	}
	if e.podGroups {
		plugins.Permit.Enabled = []schedconfig.Plugin{{Name: pluginnames.GangScheduling}} // its lack is logged
	}
	s, err := scheduler.New(ctx, e.api, informers.NewSharedInformerFactory(e.api, 0), nil,
		func(string) events.EventRecorderLogger { return e.events },
		scheduler.WithProfiles(schedconfig.KubeSchedulerProfile{SchedulerName: unused, Plugins: plugins}),
		scheduler.WithPercentageOfNodesToScore(percentageOfNodesToScore))
	if err != nil {
		return nil, fmt.Errorf("building kube-scheduler's cycle: %w", err)
	}
	snapshot, ok := s.Profiles[unused].SnapshotSharedLister().(*schedcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("building kube-scheduler's cycle: its snapshot is a %T", s.Profiles[unused].SnapshotSharedLister())
	}
	e.cache, e.snapshot = s.Cache, snapshot
	c := &cycle{engine: e, scheduler: s, upstreamSearch: s.SchedulePod}
	s.APIDispatcher = nil
	s.SchedulingQueue = noQueue{s.SchedulingQueue, e}
	setNext(s, func() queuedEntity { return c.queued })
	s.SchedulePod, s.FailureHandler = c.schedulePod, c.handleFailure
	return c, nil
}

// run runs one cycle of a pod, or of the members of a PodGroup, and the bindings that it
// leads to.
func (c *cycle) run(ctx context.Context, pods []*corev1.Pod, chosen string) (*cycleOutcome, error) {
	queued := make([]*framework.QueuedPodInfo, 0, len(pods))
	c.group, c.chosen = c.engine.IsMember(pods[0]), chosen
	c.scheduler.Profiles = profile.Map{}
	for i, pod := range pods {
		info, err := newQueuedPod(pod, i)
		if err != nil {
			return nil, err
		}
		queued = append(queued, info)
		fw, err := c.engine.frameworkFor(pod)
		if err != nil {
			return nil, err
		}
		c.scheduler.Profiles[pod.Spec.SchedulerName] = cycleFramework{fw, c}
	}
	c.queued = c.engine.queuedEntityOf(queued)
	c.searched, c.bindings = !c.group, nil
	c.found, c.failures = map[types.UID]Result{}, map[types.UID]podFailure{}

	c.scheduler.ScheduleOne(ctx)
	sent := c.engine.api.take()
	for _, b := range c.bindings {
		c.rejectIfWaiting(b)
		close(b.turn)
		<-b.done
	}
	outcome := &cycleOutcome{results: map[types.UID]Result{}, nominations: map[types.UID]string{}, evicted: sent.evicted, claimsChanged: sent.claims}
	if c.group {
		var err error
		if outcome.message, err = c.engine.patchPodGroup(ctx, podGroupKey(pods[0]), sent.statusPatches); err != nil {
			return nil, err
		}
	}
	return outcome, c.collect(ctx, outcome, pods)
}

// collect takes what became of each pod, and makes those known that were bound.
func (c *cycle) collect(ctx context.Context, outcome *cycleOutcome, pods []*corev1.Pod) error {
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
		result := c.found[b.assumed.UID]
		result.Pod, result.Node = b.bound, b.node
		outcome.results[b.assumed.UID] = result
	}
	for _, pod := range pods {
		if _, ok := outcome.results[pod.UID]; ok {
			continue
		}
		result, err := c.unplaced(pod)
		if err != nil {
			return err
		}
		outcome.results[pod.UID] = result
		if failed := c.failures[pod.UID]; failed.nomination.Mode() == fwk.ModeOverride {
			outcome.nominations[pod.UID] = failed.nomination.NominatedNodeName
		}
	}
	return nil
}

// unplaced returns what is reported of a pod that was not bound. An error is a plugin's.
func (c *cycle) unplaced(pod *corev1.Pod) (Result, error) {
	failed, ok := c.failures[pod.UID]
	result := c.found[pod.UID]
	node := result.Node
	result.Pod, result.Node, result.Message = pod, "", failed.status.Message()
	if c.group {
		result.Proposed = node
	}
	switch {
	case !ok && pod.DeletionTimestamp != nil:
		result.Message = "the pod is being deleted"
	case !ok:
		return Result{}, fmt.Errorf("pod %s: kube-scheduler's cycle did not report a result", klog.KObj(pod))
	case c.searched && !failed.status.IsRejected() && node != "":
		return Result{}, fmt.Errorf("pod %s: node %q: %w", klog.KObj(pod), node, failed.status.AsError())
	case c.searched && !failed.status.IsRejected():
		return Result{}, fmt.Errorf("pod %s: %w", klog.KObj(pod), failed.status.AsError())
	}
	return result, nil
}

// rejectIfWaiting rejects a pod that still waits in Permit for members: no more will come.
func (c *cycle) rejectIfWaiting(b *podBinding) {
	fw := c.scheduler.Profiles[b.assumed.Spec.SchedulerName]
	if waiting := fw.GetWaitingPod(b.assumed.UID); waiting != nil {
		for _, plugin := range waiting.GetPendingPlugins() {
			waiting.Reject(plugin, "too few other members of the pod group could be reserved")
		}
	}
}

// schedulePod looks for a node, as the scheduler's function of that name does.
func (c *cycle) schedulePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	c.searched = !c.group || c.engine.snapshot.NumNodesInPlacement() > 0
	if state, ok := state.(*framework.CycleState); ok {
		state.SetRecordPluginMetrics(false) // which the scheduler has drawn by chance; nothing reads them
	}
	nodes := c.engine.snapshot.NumNodesInPlacement()
	if nodes == 0 {
		return scheduler.ScheduleResult{}, scheduler.ErrNoNodesAvailable
	}
	search, err := c.engine.findNodesThatFitPod(ctx, fw, state, pod.Pod)
	if err != nil {
		return scheduler.ScheduleResult{}, err
	}
	result := Result{Feasible: len(search.feasible), Evaluated: search.evaluated()}
	if len(search.feasible) > 0 {
		if result.Node, result.Scores, err = c.engine.selectHost(ctx, fw, state, pod.Pod, search.feasible, c.chosen); err != nil {
			return scheduler.ScheduleResult{}, err
		}
	}
	if !c.postFilter {
		c.found[pod.Pod.UID] = result
	}
	if result.Node == "" {
		return scheduler.ScheduleResult{}, &framework.FitError{Pod: pod.Pod, NumAllNodes: nodes, Diagnosis: search.diagnosis()}
	}
	return scheduler.ScheduleResult{SuggestedHost: result.Node, EvaluatedNodes: result.Evaluated, FeasibleNodes: result.Feasible}, nil
}

// handleFailure takes note of a pod that was not placed. The scheduler calls it in the
// cycle or, if a binding failed, at the end of the binding cycle.
func (c *cycle) handleFailure(_ context.Context, _ framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nomination *fwk.NominatingInfo, _ time.Time) {
	c.failures[pod.Pod.UID] = podFailure{status, nomination}
	if b := c.bindingOf(pod.Pod.UID); b != nil {
		close(b.done)
	}
}

// bindingOf returns the binding cycle of the pod, nil if it has none.
func (c *cycle) bindingOf(uid types.UID) *podBinding {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bindings {
		if b.assumed.UID == uid {
			return b
		}
	}
	return nil
}

// cycleFramework is a profile within a cycle.
type cycleFramework struct {
	framework.Framework

	cycle *cycle
}

// RunPostFilterPlugins runs them, and takes note of the pods that they send back to the
// queue. Without preemption they have nothing to report: they say only that it was not tried.
func (f cycleFramework) RunPostFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if f.cycle.chosen != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	f.cycle.engine.activated.uids.Clear()
	result, status := f.Framework.RunPostFilterPlugins(ctx, state, pod, nodes)
	if !f.cycle.engine.preempts {
		status = fwk.NewStatus(status.Code())
	}
	return result, status
}

// RunPermitPlugins runs the last plugins before the scheduler begins a binding cycle in the
// background.
func (f cycleFramework) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	waits, status := f.Framework.RunPermitPlugins(ctx, state, pod, node)
	if status.IsWait() && !f.cycle.group {
		return nil, fwk.AsStatus(fmt.Errorf("plugin(s) %v let pods wait in Permit for each other, which cannot be simulated", slices.Sorted(maps.Keys(waits))))
	}
	if status.IsSuccess() || status.IsWait() {
		f.cycle.mu.Lock()
		defer f.cycle.mu.Unlock()
		f.cycle.bindings = append(f.cycle.bindings, &podBinding{assumed: pod, node: node, turn: make(chan struct{}), done: make(chan struct{})})
	}
	return waits, status
}

// RunPreBindPreFlights lets no plugin nominate the node before PreBind: the binding cycle
// ends before anything could read that.
func (cycleFramework) RunPreBindPreFlights(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}

// WillWaitOnPermit returns false: it decides only whether a nomination is written before.
func (cycleFramework) WillWaitOnPermit(context.Context, *corev1.Pod) bool { return false }

// WaitOnPermit waits for the pod's turn, too.
func (f cycleFramework) WaitOnPermit(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	if b := f.cycle.bindingOf(pod.UID); b != nil {
		<-b.turn
	}
	return f.Framework.WaitOnPermit(ctx, pod)
}

// RunBindPlugins runs them and makes the pod what the API server makes of their Binding.
func (f cycleFramework) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	status := f.Framework.RunBindPlugins(ctx, state, pod, node)
	b, pending := f.cycle.bindingOf(pod.UID), f.cycle.engine.Pod(pod.Namespace, pod.Name)
	if b.bound, b.err = f.cycle.engine.boundPod(pending, node, status); b.err != nil && status.IsSuccess() {
		return fwk.AsStatus(b.err)
	}
	return status
}

// RunPostBindPlugins runs them, and ends the binding cycle.
func (f cycleFramework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	f.Framework.RunPostBindPlugins(ctx, state, pod, node)
	close(f.cycle.bindingOf(pod.UID).done)
}

// noQueue is the scheduler's queue, which is empty: the engine has the nominations, and
// nothing comes back into the queue.
type noQueue struct {
	schedqueue.SchedulingQueue

	engine *Engine
}

// AddNominatedPod nominates the pod.
func (q noQueue) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, nomination *fwk.NominatingInfo) {
	q.engine.nominator.AddNominatedPod(logger, pod, nomination)
}

// DeleteNominatedPodIfExists ends the nomination of the pod.
func (q noQueue) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	q.engine.nominator.DeleteNominatedPodIfExists(pod)
}

// UpdateNominatedPod replaces a nominated pod.
func (q noQueue) UpdateNominatedPod(logger klog.Logger, old *corev1.Pod, updated fwk.PodInfo) {
	q.engine.nominator.UpdateNominatedPod(logger, old, updated)
}

// NominatedPodsForNode returns the pods that are nominated for the node.
func (q noQueue) NominatedPodsForNode(node string) []fwk.PodInfo {
	return q.engine.nominator.NominatedPodsForNode(node)
}

// Activate takes note of the pods.
func (q noQueue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.engine.activated.Activate(logger, pods)
}

// MoveAllToActiveOrBackoffQueue does nothing: no pod waits.
func (noQueue) MoveAllToActiveOrBackoffQueue(klog.Logger, fwk.ClusterEvent, any, any, schedqueue.PreEnqueueCheck) {
}
