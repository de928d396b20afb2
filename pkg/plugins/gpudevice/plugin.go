// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "GPUDevice"

// GPUDevice is the plugin. See the package comment.
type GPUDevice struct {
	handle fwk.Handle
	clock  clock.WithDelayedExecution
	logger klog.Logger

	// nodeKeys say how pods ask a device plugin for devices and how nodes describe
	// them, and claims which DRA drivers hand out the same devices.
	nodeKeys   *device.NodeKeys
	claims     device.Claims
	nonGPUPods config.NonGPUPodPolicy
	// nodeAndNamespaceMetrics is as in the arguments.
	nodeAndNamespaceMetrics bool

	// strategy decides.
	strategy device.Strategy
	// workload is what FragmentationGradient expects.
	workload workload

	// allocations is shared with every profile of this scheduler instance.
	allocations *allocationCache
	// nodes remembers what was found out about each node, and deviceNodes which of
	// them have devices.
	nodes       nodeCache
	deviceNodes deviceNodes
	// publishedSlices are the nodes whose devices a DRA driver offers.
	publishedSlices publishedSlices
	wakeUps         wakeUps
	// nextStartNodeIndex is where whyNeverFits starts: the node that admitted a pod last.
	// Only the scheduling goroutine uses it, cluster, scoreKeys and rankings.
	nextStartNodeIndex int
	cluster            clusterMemo
	scoreKeys          scoreKeys
	rankings           rankings
	// narrows is candidates.Narrows of the profile, which is not built when the plugin is.
	narrows func() bool

	counters counters
}

var (
	_ fwk.PreEnqueuePlugin  = &GPUDevice{}
	_ fwk.PreFilterPlugin   = &GPUDevice{}
	_ fwk.FilterPlugin      = &GPUDevice{}
	_ fwk.PreScorePlugin    = &GPUDevice{}
	_ fwk.ScorePlugin       = &GPUDevice{}
	_ fwk.ScoreExtensions   = &GPUDevice{}
	_ fwk.ReservePlugin     = &GPUDevice{}
	_ fwk.BindPlugin        = &GPUDevice{}
	_ fwk.EnqueueExtensions = &GPUDevice{}
	_ fwk.SignPlugin        = &GPUDevice{}
)

// Name returns the name of the plugin.
func (pl *GPUDevice) Name() string { return Name }

// New builds the plugin from args, which must be *config.GPUDeviceArgs and valid;
// the error names every field that is not. It adds event handlers to the
// handle's informers of pods and nodes, once for all profiles of one informer
// factory.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	gpuArgs, ok := args.(*config.GPUDeviceArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.GPUDeviceArgs, got %T", args)
	}
	// The root of the paths is the kind: which profile the args belong to is not
	// known here.
	path := field.NewPath(Name + "Args")
	if err := validation.ValidateGPUDeviceArgs(path, gpuArgs); err != nil {
		return nil, err
	}
	strategy, err := device.ParseStrategy(string(gpuArgs.ScoringStrategy.Type))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Child("scoringStrategy", "type"), err)
	}
	return NewWithStrategy(ctx, gpuArgs, handle, strategy)
}

// NewWithStrategy is New for valid args, with another strategy than they name. Whether
// it reads an expected workload, and whether its scores are an order, is as for the one
// that they name.
func NewWithStrategy(ctx context.Context, args *config.GPUDeviceArgs, handle fwk.Handle, strategy device.Strategy) (*GPUDevice, error) {
	if handle.SharedInformerFactory() == nil {
		return nil, fmt.Errorf("%s needs a framework with an informer factory", Name)
	}
	expected, err := newExpectedWorkload(field.NewPath(Name+"Args", "expectedWorkload"), args.ExpectedWorkload)
	if err != nil {
		return nil, err
	}

	registerMetrics()
	pl := &GPUDevice{
		handle:                  handle,
		clock:                   clock.RealClock{},
		logger:                  klog.FromContext(ctx),
		nodeKeys:                NodeKeys(args),
		nonGPUPods:              args.NonGPUPods,
		nodeAndNamespaceMetrics: args.NodeAndNamespaceMetrics,
		strategy:                strategy,
		counters:                newCounters(handle.ProfileName()),
		narrows:                 sync.OnceValue(func() bool { return candidates.Narrows(handle) }),
	}
	pl.claims = device.Claims{Drivers: device.DefaultDRADrivers(), Keys: pl.nodeKeys}
	pl.publishedSlices.claims = &pl.claims
	pl.workload.read = args.ScoringStrategy.Type.ExpectsWorkload()
	switch {
	case expected != nil:
		pl.workload.publish(expected)
	case pl.workload.read:
		pl.workload.learner = newLearner()
	}
	if pl.allocations, err = sharedAllocationCache(ctx, handle); err != nil {
		return nil, fmt.Errorf("caching the allocations of devices: %w", err)
	}
	if err := pl.allocations.join(pl); err != nil {
		return nil, err
	}
	if err := pl.publishedSlices.watch(handle, klog.FromContext(ctx)); err != nil {
		return nil, err
	}
	addToCollector(ctx, pl)
	return pl, nil
}

func resourceNames(names []string) []corev1.ResourceName {
	resources := make([]corev1.ResourceName, 0, len(names))
	for _, name := range names {
		resources = append(resources, corev1.ResourceName(name))
	}
	return resources
}

// NodeKeys returns by which labels and resources the arguments tell the devices of
// nodes.
func NodeKeys(args *config.GPUDeviceArgs) *device.NodeKeys {
	return &device.NodeKeys{
		Count:           args.NodeLabels.Count,
		Memory:          args.NodeLabels.Memory,
		Product:         args.NodeLabels.Product,
		Replicas:        args.NodeLabels.Replicas,
		MIGPrefix:       args.NodeLabels.MIGPrefix,
		PluginResources: resourceNames(args.DeviceResources),
		Pool:            &args.Pool,
	}
}

// signature is all that the plugin reads of a pod, apart from its CPU, which
// NodeResourcesFit signs. Two pods with equal signatures get the same result for
// every node, and the same score as long as the expected workload is the same.
type signature struct {
	// Request is what the pod asks for.
	Request device.RequestKey `json:"request,omitzero"`
	// Daemon is set only where it makes a difference.
	Daemon bool `json:"daemon,omitempty"`
}

// SignPod signs every pod but those that PreFilter refuses, and those with devices where the
// cycle may be narrowed for them (candidates.Narrows).
//
// What batching asks of the plugin, for the pods that it signs: no result depends on the
// labels, the names or the number of other pods but by what these have taken of a node. Score is by
// signature and node alone. NormalizeScore goes by the scores that it is given, of any set
// of nodes. PreScore, which runs over all nodes remembered for each pod, costs the same for any
// number. An expected workload that is learned is the exception: within the 500 ms for which
// results are kept, scores of two publications, which differ by a fiftieth, can meet. In
// a narrowed cycle they cannot.
func (pl *GPUDevice) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	request, err := device.ParsePod(pod, pl.nodeKeys)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod's request for devices cannot be served")
	}
	if len(pod.Spec.ResourceClaims) > 0 || pl.claims.MayRequestDRAExtendedResource(pod) && pl.mayClaimDevices(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what the pod's ResourceClaims are for may change")
	}
	var value signature
	switch {
	case request.Kind == device.RequestNone:
		value.Daemon = pl.nonGPUPods == config.NonGPUPodsForbid && isDaemonPod(pod)
	case pl.narrows():
		return nil, fwk.NewStatus(fwk.Unschedulable, "the nodes that can win are looked for anew for each pod with devices")
	default:
		value.Request = request.Key()
	}
	return []fwk.SignFragment{{Key: names.GPUDeviceFragment, Value: value}}, nil
}
