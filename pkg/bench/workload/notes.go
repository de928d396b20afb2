// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strconv"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/output"
)

// note says what a reader of the result must know.
func (w *writer) note() {
	if w.format == DevicePlugin {
		w.noteWholeDevices()
	}
	for i := range w.spec.Applications {
		if w.spec.Applications[i].Colocate != Nobody {
			w.plan.Notes = append(w.plan.Notes, fmt.Sprintf("Pods name the Services that they talk to in the annotation %s, which no scheduler without the plugin Colocation reads.", names.ColocateWithAnnotation))
			return
		}
	}
}

// noteWholeDevices says how many more devices the pods ask for than they need.
func (w *writer) noteWholeDevices() {
	shares, byMemory, milli := 0, 0, int64(0)
	for i := range w.plan.Arrivals {
		switch group := w.plan.groups[w.plan.Arrivals[i].Pod.Name]; {
		case group.MemoryMiB > 0:
			shares++
			byMemory++
		case group.Devices == 1 && group.Milli < device.MilliPerDevice:
			shares++
			milli += group.Milli
		}
	}
	if shares == 0 {
		return
	}
	text := fmt.Sprintf("Each of %s of a device is requested as a whole device (%s: 1), because a scheduler without GPUDevice does not support shares: ", output.Count(shares, "share"), pluginResource())
	switch byMemory {
	case 0:
		text += fmt.Sprintf("they take %s instead of %s.", output.Count(shares, "device"), tenths(milli))
	case shares:
		text += "all of them are by memory, so what they need depends on the device."
	default:
		text += fmt.Sprintf("they take %s instead of %s and what the %d by memory need.", output.Count(shares, "device"), tenths(milli), byMemory)
	}
	w.plan.Notes = append(w.plan.Notes, text)
}

// tenths writes thousandths of devices with one decimal.
func tenths(milli int64) string {
	return strconv.FormatFloat(float64(milli)/device.MilliPerDevice, 'f', 1, 64)
}
