// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	pluginsconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/apis/config/validation"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// NUMAPlugin is the name of the plugin that filters and scores nodes by the free
// resources of their NUMA zones.
const NUMAPlugin = noderesourcetopology.Name

// numaMatch is NodeResourceTopologyMatch beside GPUDevice. It differs in three things:
//
//   - It does not see what the pod asks for in shares of devices. No kubelet advertises
//     them, and for the plugin a resource that the node does not advertise is one that the
//     node lacks: it would refuse every node of the policy single-numa-node.
//   - Where the plugin panics over what it reads, it refuses the node or gives it no
//     points. It does so over zones that are not numbered from 0 without gaps, and over
//     containers without requests in a pod that has requests of its own.
//   - The plugin is made for the first pod: it asks the API server while it is made, and
//     a profile is checked without one.
type numaMatch struct {
	args   *pluginsconfig.NodeResourceTopologyMatchArgs
	handle fwk.Handle
	logger klog.Logger

	// match is nil until the first PreFilter, which no other call of the plugin overtakes.
	match *noderesourcetopology.TopologyMatch
}

var (
	_ fwk.PreFilterPlugin   = &numaMatch{}
	_ fwk.FilterPlugin      = &numaMatch{}
	_ fwk.ScorePlugin       = &numaMatch{}
	_ fwk.ReservePlugin     = &numaMatch{}
	_ fwk.PostBindPlugin    = &numaMatch{}
	_ fwk.EnqueueExtensions = &numaMatch{}
)

// newNUMAMatch checks the arguments of NodeResourceTopologyMatch.
func newNUMAMatch(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, ok := obj.(*pluginsconfig.NodeResourceTopologyMatchArgs)
	if !ok {
		return nil, fmt.Errorf("want args of %s to be of type NodeResourceTopologyMatchArgs, got %T", NUMAPlugin, obj)
	}
	if err := validation.ValidateNodeResourceTopologyMatchArgs(nil, args); err != nil {
		return nil, err
	}
	if args.CacheResyncPeriodSeconds <= 0 && !args.DiscardReservedNodes {
		return nil, field.Invalid(field.NewPath("cacheResyncPeriodSeconds"), args.CacheResyncPeriodSeconds,
			"must be greater than 0 (5 is usual): without its cache "+NUMAPlugin+" asks the API server for every node that it looks at for a pod")
	}
	// Its watch goes round without a pause once the API server has ended it, as that does
	// within an hour, and reads without a lock what cycles write.
	if args.Cache == nil || args.Cache.ResyncScope == nil || *args.Cache.ResyncScope != pluginsconfig.CacheResyncScopeOnlyResources {
		return nil, field.Required(field.NewPath("cache", "resyncScope"), "must be "+string(pluginsconfig.CacheResyncScopeOnlyResources)+
			": with another scope, or none, "+NUMAPlugin+" uses a whole CPU after an hour")
	}
	return &numaMatch{args: args, handle: handle, logger: klog.FromContext(ctx)}, nil
}

// Name is the plugin's name in a profile.
func (m *numaMatch) Name() string { return NUMAPlugin }

// EventsToRegister is the plugin's: a pod is gone, a node or its NodeResourceTopology has
// changed.
func (m *numaMatch) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	return (&noderesourcetopology.TopologyMatch{}).EventsToRegister(ctx)
}

// withoutSharesKey is the key of the pod without shares in the cycle's state.
const withoutSharesKey fwk.StateKey = NUMAPlugin + "/without-shares"

// withoutShares is the pod of a cycle without its requests for shares.
type withoutShares struct{ pod *corev1.Pod }

// Clone returns the same: nobody changes it.
func (s *withoutShares) Clone() fwk.StateData { return s }

// PreFilter makes the plugin, and leaves the pod without its requests for shares in the
// cycle's state.
func (m *numaMatch) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if m.match == nil {
		// Without the cycle's end, and its pod in the log: what the plugin starts stays.
		plugin, err := noderesourcetopology.New(klog.NewContext(context.WithoutCancel(ctx), m.logger), m.args, m.handle)
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("%s: %w", NUMAPlugin, err))
		}
		match, ok := plugin.(*noderesourcetopology.TopologyMatch)
		if !ok {
			return nil, fwk.AsStatus(fmt.Errorf("want %s to be a %T, got %T", NUMAPlugin, match, plugin))
		}
		m.match = match
	}
	if asksForShares(pod) {
		state.Write(withoutSharesKey, &withoutShares{removeShares(pod)})
	}
	return nil, nil
}

// PreFilterExtensions returns nil: the pod is the same, whichever pods are on the nodes.
func (m *numaMatch) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a node none of whose NUMA zones has what the pod asks for, if the
// node's kubelet has the policy single-numa-node.
func (m *numaMatch) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (status *fwk.Status) {
	defer m.recovered(ctx, pod, node, func(reason string) { status = fwk.NewStatus(fwk.Unschedulable, reason) })
	return m.match.Filter(ctx, state, readWithoutShares(state, pod), node)
}

// Score rates the node by what its NUMA zones have free, from 0 to 100.
func (m *numaMatch) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (score int64, status *fwk.Status) {
	defer m.recovered(ctx, pod, node, func(string) { score, status = 0, nil })
	return m.match.Score(ctx, state, readWithoutShares(state, pod), node)
}

// ScoreExtensions returns nil: scores are from 0 to 100 as they are.
func (m *numaMatch) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Reserve takes what the pod requests from the node's zones until the node says more.
func (m *numaMatch) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	return m.match.Reserve(ctx, state, pod, node)
}

// Unreserve gives it back.
func (m *numaMatch) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	m.match.Unreserve(ctx, state, pod, node)
}

// PostBind tells the plugin that the pod is bound.
func (m *numaMatch) PostBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	m.match.PostBind(ctx, state, pod, node)
}

// recovered, deferred, ends a panic of the plugin, logs it and hands the reason to give.
func (m *numaMatch) recovered(ctx context.Context, pod *corev1.Pod, node fwk.NodeInfo, give func(reason string)) {
	panicked := recover()
	if panicked == nil {
		return
	}
	klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", panicked), NUMAPlugin+" does not understand the node's NodeResourceTopology, or the pod",
		"pod", klog.KObj(pod), "node", klog.KObj(node.Node()), "stack", string(debug.Stack()))
	give(NUMAPlugin + " does not understand the node's NodeResourceTopology (zones must be node-0, node-1, … without a gap), or the pod: see the scheduler's log")
}

// readWithoutShares returns the pod without its requests for shares.
func readWithoutShares(state fwk.CycleState, pod *corev1.Pod) *corev1.Pod {
	if data, err := state.Read(withoutSharesKey); err == nil {
		if without, ok := data.(*withoutShares); ok {
			return without.pod
		}
	}
	return pod
}

// asksForShares reports whether a container requests a resource of Berth's.
func asksForShares(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, containerAsksForShares) ||
		slices.ContainsFunc(pod.Spec.InitContainers, containerAsksForShares)
}

func containerAsksForShares(container corev1.Container) bool {
	return slices.ContainsFunc(names.ShareResources[:], func(name string) bool {
		_, requested := container.Resources.Requests[corev1.ResourceName(name)]
		return requested
	})
}

// removeShares returns a copy of the pod that requests no resource of Berth's. All but
// the containers' requests is shared with the pod.
func removeShares(pod *corev1.Pod) *corev1.Pod {
	without := *pod
	without.Spec.Containers = containersWithoutShares(pod.Spec.Containers)
	without.Spec.InitContainers = containersWithoutShares(pod.Spec.InitContainers)
	return &without
}

func containersWithoutShares(containers []corev1.Container) []corev1.Container {
	without := slices.Clone(containers)
	for i := range without {
		requests := maps.Clone(without[i].Resources.Requests)
		for _, name := range names.ShareResources {
			delete(requests, corev1.ResourceName(name))
		}
		without[i].Resources.Requests = requests
	}
	return without
}
