// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// a100 is the model of nodes from gpuNode, and their devices' memory.
const (
	a100       = "NVIDIA-A100"
	a100Memory = 40960
)

// gpuArgs are valid arguments; change fills in what a test wants.
func gpuArgs(change ...func(*config.GPUDeviceArgs)) *config.GPUDeviceArgs {
	args := &config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceFragmentationGradient},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
	for _, c := range change {
		c(args)
	}
	return args
}

func withStrategy(strategy config.GPUDeviceStrategy) func(*config.GPUDeviceArgs) {
	return func(args *config.GPUDeviceArgs) { args.ScoringStrategy.Type = strategy }
}

func withNonGPUPods(policy config.NonGPUPodPolicy) func(*config.GPUDeviceArgs) {
	return func(args *config.GPUDeviceArgs) { args.NonGPUPods = policy }
}

// newProfile builds a profile with the plugin. Its informers do not run yet.
func newProfile(tb testing.TB, args *config.GPUDeviceArgs, opts schedtest.Options) (*schedtest.Profile, *GPUDevice) {
	tb.Helper()
	profile, err := schedtest.NewProfile(tb.Context(), tb, Name, New, args, opts)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return profile, profile.Plugin.(*GPUDevice)
}

// startProfile is startUnprepared, and has the plugin prepare.
func startProfile(tb testing.TB, args *config.GPUDeviceArgs, opts schedtest.Options) (*schedtest.Profile, *GPUDevice) {
	tb.Helper()
	profile, pl := startUnprepared(tb, args, opts)
	must(tb, pl.Prepare(tb.Context()))
	return profile, pl
}

// startUnprepared builds a profile with the plugin, runs its informers, and returns
// when the allocation cache has seen every pod and every node.
func startUnprepared(tb testing.TB, args *config.GPUDeviceArgs, opts schedtest.Options) (*schedtest.Profile, *GPUDevice) {
	tb.Helper()
	profile, pl := newProfile(tb, args, opts)
	start(tb, profile, pl, opts)
	return profile, pl
}

// startInEpoch is startProfile for a process that began to fence at this version of the API
// server's store. The fake client has no versions.
func startInEpoch(tb testing.TB, epoch string, opts schedtest.Options) (*schedtest.Profile, *GPUDevice) {
	tb.Helper()
	profile, pl := newProfile(tb, gpuArgs(), opts)
	pl.allocations.epoch = epoch
	start(tb, profile, pl, opts)
	must(tb, pl.Prepare(tb.Context()))
	return profile, pl
}

// start runs the informers, and returns when the allocation cache has seen every pod and node.
func start(tb testing.TB, profile *schedtest.Profile, pl *GPUDevice, opts schedtest.Options) {
	tb.Helper()
	profile.Start(tb.Context(), tb)
	<-pl.allocations.synced.Done()
	var want int64
	for _, node := range opts.Nodes {
		if device.ParseNode(node, pl.nodeKeys).Kind != device.NodeWithoutDevices {
			want++
		}
	}
	for pl.deviceNodes.count.Load() != want {
		select {
		case <-tb.Context().Done():
			tb.Fatal("the nodes with devices were not seen")
		case <-time.After(time.Millisecond):
		}
	}
}

// makeNode is a node without devices, with 64 CPUs.
func makeNode(name string, labels map[string]string) *corev1.Node {
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
	}
}

// gpuNode is a shared node with A100s of 40 GiB.
func gpuNode(name string, devices int) *corev1.Node {
	return makeNode(name, map[string]string{
		names.GPUSharingLabel:    "true",
		"nvidia.com/gpu.count":   strconv.Itoa(devices),
		"nvidia.com/gpu.memory":  strconv.Itoa(a100Memory),
		"nvidia.com/gpu.product": a100,
	})
}

// pluginNode is a node whose devices a device plugin hands out.
func pluginNode(name, model string, devices int) *corev1.Node {
	node := makeNode(name, map[string]string{"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": strconv.Itoa(a100Memory)})
	node.Status.Allocatable = node.Status.Allocatable.DeepCopy()
	node.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(int64(devices), resource.DecimalSI)
	node.Status.Capacity = node.Status.Allocatable
	return node
}

// labeled returns the node with one more label.
func labeled(node *corev1.Node, key, value string) *corev1.Node {
	node.Labels[key] = value
	return node
}

// annotated returns the object with one more annotation.
func annotated[T metav1.Object](obj T, key, value string) T {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
	return obj
}

// makePod is a pending pod with one container, main. limits are pairs of a
// resource and an amount.
func makePod(name string, limits ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: corev1.PodSpec{
			SchedulerName: names.Scheduler,
			Containers:    []corev1.Container{{Name: "main"}},
		},
	}
	if len(limits) == 0 {
		return pod
	}
	list := corev1.ResourceList{}
	for i := 0; i < len(limits); i += 2 {
		list[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
	}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	return pod
}

// sharePod asks for thousandths of a device.
func sharePod(name string, milli int) *corev1.Pod {
	return makePod(name, names.GPUMilliResource, strconv.Itoa(milli))
}

// boundPod is sharePod on a node, with the record of the devices that its
// container was given: "0", or "0,1" for whole ones.
func boundPod(name string, milli int, node, devices string) *corev1.Pod {
	return bindTo(sharePod(name, milli), node, devices, min(milli, device.MilliPerDevice))
}

// bindTo puts a pod that asks for thousandths on a node as Bind does.
func bindTo(pod *corev1.Pod, node, devices string, milli int) *corev1.Pod {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	annotated(bound, names.GPUDevicesAnnotationPrefix+"main", devices)
	return annotated(bound, names.GPUAssignedAnnotation, fmt.Sprintf("main=%s:%dm:%dMi", devices, milli, a100Memory*milli/device.MilliPerDevice))
}

// nodeInfo returns the node of the profile's snapshot.
func nodeInfo(tb testing.TB, profile *schedtest.Profile, name string) fwk.NodeInfo {
	tb.Helper()
	info, err := profile.SnapshotSharedLister().NodeInfos().Get(name)
	must(tb, err)
	return info
}

// freeMilli returns what is free of each device of the node.
func freeMilli(pl *GPUDevice, info fwk.NodeInfo) []int64 {
	v := pl.view(info, false)
	free := []int64{}
	for d := range v.usage.Devices() {
		free = append(free, v.usage.Free(d).Milli)
	}
	return free
}

// must ends the test at an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// succeed ends the test unless the status is a success.
func succeed(tb testing.TB, status *fwk.Status) {
	tb.Helper()
	if !status.IsSuccess() {
		tb.Fatal(status)
	}
}

// podStore is the store of the profile's pod informer: an object that is put there triggers no event handler.
func podStore(profile *schedtest.Profile) clientcache.Indexer {
	return profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
}

// nodeStore is the same of nodes.
func nodeStore(profile *schedtest.Profile) clientcache.Indexer {
	return profile.SharedInformerFactory().Core().V1().Nodes().Informer().GetIndexer()
}

// expectFree compares what is free of each device of node n, in thousandths.
func expectFree(t *testing.T, profile *schedtest.Profile, pl *GPUDevice, want ...int64) {
	t.Helper()
	if diff := cmp.Diff(want, freeMilli(pl, nodeInfo(t, profile, "n"))); diff != "" {
		t.Errorf("Unexpected free amounts (-want,+got):\n%s", diff)
	}
}

// fakeClock gives the plugin a clock that the test moves.
func fakeClock(pl *GPUDevice) *clocktesting.FakeClock {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	pl.clock = clock
	return clock
}

// show lets the profile's informer know the pod, as one without a node, and tells
// no handler.
func show(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) {
	tb.Helper()
	pending := pod.DeepCopy()
	pending.Spec.NodeName = ""
	store(tb, profile, pending)
}

// store puts the pod into the store of the profile's informer as it is, and tells no
// handler.
func store(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) {
	tb.Helper()
	must(tb, podStore(profile).Add(pod))
}

// reserveOn runs a cycle up to Reserve and returns its status.
func reserveOn(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod, node string) *fwk.Status {
	tb.Helper()
	show(tb, profile, pod)
	state := profile.NewCycle(tb.Context(), tb, pod)
	return profile.RunReservePluginsReserve(tb.Context(), state, pod, node)
}

// liveCache feeds the snapshot of a profile as the scheduler does, so that a test
// can change the cluster between cycles. The profile must start empty.
type liveCache struct {
	cache.Cache
	snapshot *cache.Snapshot

	tb    testing.TB
	nodes clientcache.Indexer
}

func newLiveCache(tb testing.TB, profile *schedtest.Profile) *liveCache {
	tb.Helper()
	return &liveCache{
		Cache: compat.NewCache(tb.Context(), false), snapshot: profile.SnapshotSharedLister().(*cache.Snapshot),
		tb: tb, nodes: nodeStore(profile),
	}
}

// AddNode adds the node, to the informer's store too: of one that is not there nothing is
// remembered.
func (c *liveCache) AddNode(logger klog.Logger, node *corev1.Node) {
	c.store(node)
	c.Cache.AddNode(logger, node)
}

// UpdateNode is AddNode for another version of the node.
func (c *liveCache) UpdateNode(logger klog.Logger, old, node *corev1.Node) {
	c.store(node)
	c.Cache.UpdateNode(logger, old, node)
}

func (c *liveCache) store(node *corev1.Node) {
	if err := c.nodes.Add(node); err != nil {
		c.tb.Fatal(err)
	}
}

// process is a scheduler process with the plugin that a history drives: nothing happens
// in it by itself.
type process struct {
	t       *testing.T
	rand    *rand.Rand
	profile *schedtest.Profile
	pl      *GPUDevice
	live    *liveCache
	logger  klog.Logger
	events  clientcache.ResourceEventHandler
}

func newProcess(t *testing.T, seed1, seed2 uint64) process {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	return process{t: t, rand: rand.New(rand.NewPCG(seed1, seed2)), logger: logger.V(10)}
}

// start starts it with an empty store and cache.
func (p *process) start(args *config.GPUDeviceArgs) {
	p.t.Helper()
	p.profile, p.pl = startProfile(p.t, args, schedtest.Options{})
	p.live = newLiveCache(p.t, p.profile)
	p.events = p.pl.allocations.podHandler(klog.Logger{})
}

// store is the pod informer's. An object that is put there triggers no event handler.
func (p *process) store() clientcache.Indexer {
	return podStore(p.profile)
}

func (p *process) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// oneOf returns a value of the map, the zero value if there is none.
func oneOf[K ~string, V any](random *rand.Rand, values map[K]V) (value V) {
	if len(values) == 0 {
		return value
	}
	return values[slices.Sorted(maps.Keys(values))[random.IntN(len(values))]]
}

// makeOwner is the reference of a controller.
func makeOwner(apiVersion, kind string) []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: &controller}}
}

// podRequestOf parses what a pod asks for.
func podRequestOf(tb testing.TB, pl *GPUDevice, pod *corev1.Pod) device.PodRequest {
	tb.Helper()
	request, err := device.ParsePod(pod, pl.nodeKeys)
	must(tb, err)
	return device.PodRequest{Request: request, CPUMilli: plugin.CPUMilli(pod)}
}

// drainEvents returns the events so far that have the reason, and drops the others.
func drainEvents(profile *schedtest.Profile, reason string) []string {
	var found []string
	for {
		select {
		case event := <-profile.Events:
			if strings.Contains(event, reason) {
				found = append(found, event)
			}
		default:
			return found
		}
	}
}

// preFilterOrSkip is preFilter, also for a pod that is skipped.
func preFilterOrSkip(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) *framework.CycleState {
	tb.Helper()
	state := framework.NewCycleState()
	if _, status, _ := profile.RunPreFilterPlugins(tb.Context(), state, pod); !status.IsSuccess() && !status.IsSkip() {
		tb.Fatalf("PreFilter: %v", status)
	}
	return state
}
