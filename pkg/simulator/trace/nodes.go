// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"unique"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Node is a row of a node list.
type Node struct {
	// Name is the column sn.
	Name string
	// CPUMilli and MemoryMiB are what pods can have.
	CPUMilli, MemoryMiB int64
	// Devices is the number of devices, 0 to [device.MaxDevices].
	Devices int
	// Model is the model of all of them; empty if unknown.
	Model string
}

// DeviceMilli returns the compute of the node's devices, in thousandths of a
// device.
func (n *Node) DeviceMilli() int64 { return int64(n.Devices) * device.MilliPerDevice }

// nodeColumns are those of a node list, the name first.
var nodeColumns = []column[Node]{
	nameColumn("sn", func(n *Node) *string { return &n.Name }),
	integerColumn("cpu_milli", maxAmount, func(n *Node) *int64 { return &n.CPUMilli }),
	integerColumn("memory_mib", maxAmount, func(n *Node) *int64 { return &n.MemoryMiB }),
	{name: "gpu", set: func(n *Node, name, text string) error {
		devices, err := integer(name, text, device.MaxDevices)
		n.Devices = int(devices)
		return err
	}},
	{name: "model", set: func(n *Node, name, text string) error {
		n.Model = unique.Make(text).Value() // one string for all nodes of a model
		if err := checkModel(text); text != "" && err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if n.Devices == 0 {
			return nil
		}
		// A model may tell of devices that cannot be shared.
		keys := device.DefaultNodeKeys()
		if parsed := device.ParseNode(n.Object(), &keys); parsed.Kind != device.NodeShared {
			return fmt.Errorf("%s: the devices of such a node cannot be shared: %w", name, parsed.Invalid)
		}
		return nil
	}},
}
