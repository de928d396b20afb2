// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// workload is what FragmentationGradient expects: given in the arguments, or learned.
// With any other strategy it is empty.
type workload struct {
	// read is whether the strategy reads it.
	read bool
	// withoutSupply is what was published last, before supply was counted in, and supply
	// what devices the cluster had when it was last looked at. Both belong to the scheduling goroutine.
	withoutSupply *device.Workload
	supply        []device.Supply
	// published is replaced between scheduling cycles, by the goroutine that runs
	// them; anybody may read it.
	published atomic.Pointer[publishedWorkload]
	// epoch counts the workloads that were published.
	epoch uint64
	// learner is nil if nothing is learned.
	learner *learner
}

// publishedWorkload is a workload that does not change.
type publishedWorkload struct {
	*device.Workload

	epoch uint64
}

// forNode returns the workload as nodes like this one see it, or nil if nothing is
// expected yet.
func (p *publishedWorkload) forNode(node *device.Node) *device.NodeWorkload {
	if p == nil {
		return nil
	}
	return p.For(node)
}

// setSupply takes note of what devices the cluster has. If that changed, what is
// scarce may have.
func (w *workload) setSupply(devices map[device.Supply]int64) {
	if !w.read {
		return
	}
	supply := make([]device.Supply, 0, len(devices))
	for kind, count := range devices {
		kind.Devices = count
		supply = append(supply, kind)
	}
	slices.SortFunc(supply, func(a, b device.Supply) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.MemoryMiB, b.MemoryMiB))
	})
	if slices.Equal(supply, w.supply) {
		return
	}
	w.supply = supply
	if w.withoutSupply != nil {
		w.publish(w.withoutSupply)
	}
}

// publish makes expected the expected workload.
func (w *workload) publish(expected *device.Workload) {
	w.withoutSupply = expected
	w.epoch++
	w.published.Store(&publishedWorkload{Workload: expected.WithSupply(w.supply), epoch: w.epoch})
}

// newExpectedWorkload compiles args.expectedWorkload; nil if it is empty.
func newExpectedWorkload(path *field.Path, args []config.GPUDeviceWorkloadClass) (*device.Workload, error) {
	if len(args) == 0 {
		return nil, nil
	}
	classes := make([]device.Class, 0, len(args))
	for i := range args {
		shape, err := shapeOfClass(&args[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Index(i), err)
		}
		classes = append(classes, device.Class{Shape: shape, Weight: args[i].Weight})
	}
	expected, err := device.NewWorkload(classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return expected, nil
}

func shapeOfClass(class *config.GPUDeviceWorkloadClass) (device.Shape, error) {
	const bytesPerMiB = 1 << 20
	shape := device.Shape{
		CPUMilli: class.CPU.MilliValue(),
		Milli:    class.GPUMilli,
		// Rounded up, as a pod's limit is.
		MemoryMiB:    (class.GPUMemory.Value() + bytesPerMiB - 1) / bytesPerMiB,
		MinMemoryMiB: (class.GPUMinMemory.Value() + bytesPerMiB - 1) / bytesPerMiB,
	}
	if shape.Milli > 0 || shape.MemoryMiB > 0 {
		shape.Devices = 1
	}
	if shape.Milli > device.MilliPerDevice {
		shape.Devices = int(shape.Milli / device.MilliPerDevice)
		shape.Milli = device.MilliPerDevice
	}
	if class.GPUModel != "" {
		models, err := device.ParseModels(class.GPUModel)
		if err != nil {
			return device.Shape{}, fmt.Errorf("gpuModel %w", err)
		}
		shape.Models = models
	}
	return shape, nil
}

// learner is a histogram of what pods ask for (device.Histogram). Pods that ask for
// no device are left out.
//
// It counts a pod when it is first about to be scheduled, in the scheduling
// goroutine and nowhere else: the same pods in the same order give the same
// workload, whatever informers do meanwhile. What was learned is not stored
// anywhere. At the start the pods that are on the nodes stand for it, the oldest
// first.
type learner struct {
	histogram device.Histogram
	restored  bool

	// mu guards seen, from which the informer's handler removes.
	mu   sync.Mutex
	seen map[types.UID]struct{}
}

func newLearner() *learner {
	return &learner{seen: map[types.UID]struct{}{}}
}

// forgetSeen lets go of a pod that is gone. Its weight stays.
func (l *learner) forgetSeen(uid types.UID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, uid)
}

// isNew reports whether the pod was not counted yet, and remembers it.
func (l *learner) isNew(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.seen[uid]; ok {
		return false
	}
	l.seen[uid] = struct{}{}
	return true
}

// learn takes note of a pod, once, and publishes what is expected now and then:
// every publication makes all remembered scores worthless.
func (w *workload) learn(pl *GPUDevice, pod types.UID, podRequest device.PodRequest, nodes []fwk.NodeInfo) {
	l := w.learner
	if l == nil {
		return
	}
	due := false
	if !l.restored {
		l.restored = true
		due = l.restore(pl, nodes)
	}
	if l.isNew(pod) {
		due = l.histogram.Add(device.ShapeOf(podRequest)) || due
	}
	if !due {
		return
	}
	if expected := l.histogram.Workload(); expected != nil {
		w.publish(expected)
	}
}

// restore counts the pods that are on nodes.
func (l *learner) restore(pl *GPUDevice, nodes []fwk.NodeInfo) (due bool) {
	type running struct {
		created metav1.Time
		uid     types.UID
		shape   device.Shape
	}
	var pods []running
	for _, nodeInfo := range nodes {
		if pl.view(nodeInfo, false).node.Kind == device.NodeInOtherPool {
			continue
		}
		for _, podInfo := range nodeInfo.GetPods() {
			pod := podInfo.GetPod()
			request, err := device.ParsePod(pod, pl.nodeKeys)
			if err != nil || len(request.Containers) == 0 {
				continue
			}
			shape := device.ShapeOf(device.PodRequest{Request: request, CPUMilli: plugin.CPUMilli(pod)})
			pods = append(pods, running{created: pod.CreationTimestamp, uid: pod.UID, shape: shape})
		}
	}
	slices.SortFunc(pods, func(a, b running) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.uid, b.uid))
	})
	for _, pod := range pods {
		if l.isNew(pod.uid) {
			l.histogram.Add(pod.shape)
			due = true
		}
	}
	return due
}
