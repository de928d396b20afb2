// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
)

// workload is what FragmentationGradient expects: given in the arguments, or learnt.
// With any other strategy it is empty.
type workload struct {
	// read is whether the strategy reads it.
	read bool
	// expected is what was published last, and supply what devices the cluster had
	// when it was last looked at. Both belong to the scheduling goroutine.
	expected *device.Workload
	supply   []device.Supply
	// current is replaced between scheduling cycles, by the goroutine that runs
	// them; anybody may read it.
	current atomic.Pointer[publishedWorkload]
	// epoch counts the workloads that were published.
	epoch uint64
	// learner is nil if nothing is learnt.
	learner *learner
}

// publishedWorkload is a workload that does not change.
type publishedWorkload struct {
	*device.Workload

	epoch uint64
}

// expectedBy returns the workload as nodes like this one see it, or nil if nothing is
// expected yet.
func (p *publishedWorkload) expectedBy(node *device.Node) *device.Expected {
	if p == nil {
		return nil
	}
	return p.For(node)
}

// supplied takes note of what devices the cluster has. If that changed, what is
// scarce may have.
func (w *workload) supplied(devices map[device.Supply]int64) {
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
	if w.expected != nil {
		w.publish(w.expected)
	}
}

// publish makes expected the expected workload.
func (w *workload) publish(expected *device.Workload) {
	w.expected = expected
	w.epoch++
	w.current.Store(&publishedWorkload{Workload: expected.Priced(w.supply), epoch: w.epoch})
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
