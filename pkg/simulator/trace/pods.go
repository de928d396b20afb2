// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"
	"strings"

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

// modelList returns the models as the annotation has them.
func (p *Pod) modelList() string { return strings.ReplaceAll(p.Models, modelSeparator, ",") }

const (
	podDevicesColumn = "num_gpu"
	milliColumn      = "gpu_milli"
	specColumn       = "gpu_spec"

	// modelSeparator stands between the models of gpu_spec.
	modelSeparator = "|"
)

// timeColumns are in seconds, and may be empty: a pod that was never scheduled
// has no scheduled_time.
var timeColumns = []string{"creation_time", "deletion_time", "scheduled_time"}

// readPods adds the rows of a pod list.
func (t *Trace) readPods(table *table) error {
	index, err := table.resolve(
		[]string{podNameColumn, cpuColumn, memoryColumn, podDevicesColumn, milliColumn},
		append([]string{specColumn, "qos", "pod_phase"}, timeColumns...))
	if err != nil {
		return err
	}
	specs := map[string]string{}
	before := len(t.Pods)
	for {
		more, err := table.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		pod, err := parsePod(table, index)
		if err != nil {
			return err
		}
		if pod.Name, err = addName(table, index[podNameColumn], t.podAt); err != nil {
			return err
		}
		pod.Models = intern(specs, pod.Models)
		t.Pods = append(t.Pods, pod)
	}
	if len(t.Pods) == before {
		return &Error{File: table.file, Err: errNoRows}
	}
	return nil
}

// parsePod reads the current row. The name is checked, and left to the caller.
func parsePod(table *table, index map[string]int) (Pod, error) {
	var p Pod
	name := index[podNameColumn]
	if err := checkName(table.row[name]); err != nil {
		return p, table.at(name, fmt.Errorf("%s: %w", podNameColumn, err))
	}
	var err error
	if p.CPUMilli, err = table.integer(index[cpuColumn], maxAmount); err != nil {
		return p, err
	}
	if p.MemoryMiB, err = table.integer(index[memoryColumn], maxAmount); err != nil {
		return p, err
	}
	if err := p.parseDevices(table, index); err != nil {
		return p, err
	}
	for _, column := range timeColumns {
		field := index[column]
		if field < 0 || table.row[field] == "" {
			continue
		}
		if _, err := table.integer(field, math.MaxInt64); err != nil {
			return p, err
		}
	}
	return p, nil
}

// parseDevices reads what a pod asks of devices.
func (p *Pod) parseDevices(table *table, index map[string]int) error {
	devices, err := table.integer(index[podDevicesColumn], device.MaxDevices)
	if err != nil {
		return err
	}
	p.Devices = int(devices)
	milli := index[milliColumn]
	if p.Milli, err = table.integer(milli, device.MilliPerDevice); err != nil {
		return err
	}
	switch {
	case p.Devices == 0 && p.Milli != 0:
		return table.at(milli, fmt.Errorf("%s: must be 0 with %s 0, not %d", milliColumn, podDevicesColumn, p.Milli))
	case p.Devices == 1 && p.Milli == 0:
		return table.at(milli, fmt.Errorf("%s: must be 1 to %d with %s 1, not 0", milliColumn, device.MilliPerDevice, podDevicesColumn))
	case p.Devices > 1 && p.Milli != device.MilliPerDevice:
		return table.at(milli, fmt.Errorf("%s: must be %d with %s %d, not %d: a share is of one device", milliColumn, device.MilliPerDevice, podDevicesColumn, p.Devices, p.Milli))
	}
	spec := index[specColumn]
	if spec < 0 || table.row[spec] == "" {
		return nil
	}
	p.Models = table.row[spec]
	if p.Devices == 0 {
		return table.at(spec, fmt.Errorf("%s: is %q on a pod with %s 0: a model without a device", specColumn, abbreviate(p.Models), podDevicesColumn))
	}
	for model := range strings.SplitSeq(p.Models, modelSeparator) {
		if err := checkModel(model); err != nil {
			return table.at(spec, fmt.Errorf("%s: %q: %w", specColumn, abbreviate(p.Models), err))
		}
	}
	if _, err := device.ParseModels(p.modelList()); err != nil {
		return table.at(spec, fmt.Errorf("%s: %q %w", specColumn, abbreviate(p.Models), err))
	}
	return nil
}
