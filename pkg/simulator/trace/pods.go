// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strings"
	"unique"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Pod is a row of a pod list.
type Pod struct {
	// Name is the column name; pods that were added have a suffix.
	Name string
	// CPUMilli and MemoryMiB are what the pod requests.
	CPUMilli, MemoryMiB int64
	// Devices is the number of devices, 0 to [device.MaxDevices].
	Devices int
	// Milli is the compute that the pod asks for of each device, in thousandths:
	// 1 to 999 with one device, 1000 with any number, 0 with none.
	Milli int64
	// Models are the models that the pod accepts, separated by |; empty accepts
	// all.
	Models string
}

// DeviceMilli returns the compute that the pod asks for, in thousandths of a
// device.
func (p *Pod) DeviceMilli() int64 { return int64(p.Devices) * p.Milli }

// modelSeparator stands between the models of gpu_spec.
const modelSeparator = "|"

// modelList returns the models as the annotation has them.
func (p *Pod) modelList() string { return strings.ReplaceAll(p.Models, modelSeparator, ",") }

// podColumns are those of a pod list, the name first.
var podColumns = []column[Pod]{
	nameColumn("name", func(p *Pod) *string { return &p.Name }),
	integerColumn("cpu_milli", maxAmount, func(p *Pod) *int64 { return &p.CPUMilli }),
	integerColumn("memory_mib", maxAmount, func(p *Pod) *int64 { return &p.MemoryMiB }),
	{name: "num_gpu", set: func(p *Pod, name, text string) error {
		devices, err := integer(name, text, device.MaxDevices)
		p.Devices = int(devices)
		return err
	}},
	{name: "gpu_milli", set: (*Pod).setMilli},
	{name: "gpu_spec", optional: true, set: (*Pod).setModels},
	{name: "qos", optional: true},
	{name: "pod_phase", optional: true},
	timeColumn[Pod]("creation_time"),
	timeColumn[Pod]("deletion_time"),
	timeColumn[Pod]("scheduled_time"),
}

// setMilli reads what a pod asks of each device.
func (p *Pod) setMilli(name, text string) (err error) {
	p.Milli, err = integer(name, text, device.MilliPerDevice)
	switch {
	case err != nil:
		return err
	case p.Devices == 0 && p.Milli != 0:
		return fmt.Errorf("%s: must be 0 with num_gpu 0, not %d", name, p.Milli)
	case p.Devices == 1 && p.Milli == 0:
		return fmt.Errorf("%s: must be 1 to %d with num_gpu 1, not 0", name, device.MilliPerDevice)
	case p.Devices > 1 && p.Milli != device.MilliPerDevice:
		return fmt.Errorf("%s: must be %d with num_gpu %d, not %d: a share is of one device", name, device.MilliPerDevice, p.Devices, p.Milli)
	}
	return nil
}

// setModels reads which models a pod accepts.
func (p *Pod) setModels(name, text string) error {
	if text == "" {
		return nil
	}
	p.Models = unique.Make(text).Value()
	if p.Devices == 0 {
		return fmt.Errorf("%s: is %q on a pod with num_gpu 0: a model without a device", name, abbreviate(text))
	}
	for model := range strings.SplitSeq(text, modelSeparator) {
		if err := checkModel(model); err != nil {
			return fmt.Errorf("%s: %q: %w", name, abbreviate(text), err)
		}
	}
	if _, err := device.ParseModels(p.modelList()); err != nil {
		return fmt.Errorf("%s: %q %w", name, abbreviate(text), err)
	}
	return nil
}
