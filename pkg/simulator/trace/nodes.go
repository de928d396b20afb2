// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

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

const (
	devicesColumn = "gpu"
	modelColumn   = "model"
)

// readNodes adds the rows of a node list.
func (t *Trace) readNodes(table *table) error {
	index, err := table.resolve([]string{nodeNameColumn, cpuColumn, memoryColumn, devicesColumn, modelColumn}, nil)
	if err != nil {
		return err
	}
	models := map[string]string{} // one string for all nodes of a model
	before := len(t.Nodes)
	for {
		more, err := table.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		node, err := parseNode(table, index)
		if err != nil {
			return err
		}
		if node.Name, err = addName(table, index[nodeNameColumn], t.nodeAt); err != nil {
			return err
		}
		node.Model = intern(models, node.Model)
		t.Nodes = append(t.Nodes, node)
	}
	if len(t.Nodes) == before {
		return &Error{File: table.file, Err: errNoRows}
	}
	return nil
}

// parseNode reads the current row. The name is checked, and left to the caller.
func parseNode(table *table, index map[string]int) (Node, error) {
	var n Node
	name := index[nodeNameColumn]
	if err := checkName(table.row[name]); err != nil {
		return n, table.at(name, fmt.Errorf("%s: %w", nodeNameColumn, err))
	}
	var err error
	if n.CPUMilli, err = table.integer(index[cpuColumn], maxAmount); err != nil {
		return n, err
	}
	if n.MemoryMiB, err = table.integer(index[memoryColumn], maxAmount); err != nil {
		return n, err
	}
	devices, err := table.integer(index[devicesColumn], device.MaxDevices)
	if err != nil {
		return n, err
	}
	n.Devices = int(devices)
	model := index[modelColumn]
	n.Model = table.row[model]
	if err := checkModel(n.Model); n.Model != "" && err != nil {
		return n, table.at(model, fmt.Errorf("%s: %w", modelColumn, err))
	}
	// A model may tell of devices that cannot be shared.
	if n.Devices > 0 {
		keys := device.DefaultNodeKeys()
		if parsed := device.ParseNode(n.Object(), &keys); parsed.Kind != device.NodeShared {
			return n, table.at(model, fmt.Errorf("%s: the devices of such a node cannot be shared: %s", modelColumn, parsed.Invalid))
		}
	}
	return n, nil
}

// checkName says what is wrong with the name of an object, if anything is.
func checkName(name string) error {
	if name == "" {
		return errors.New("is empty: want a name")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of an object: %s", abbreviate(name), problems[0])
	}
	return nil
}

// checkModel says what is wrong with a model, which becomes the value of a label.
func checkModel(model string) error {
	if model == "" {
		return errors.New("a model is empty")
	}
	if problems := validation.IsValidLabelValue(model); len(problems) > 0 {
		return fmt.Errorf("%q is not a device model, which is the value of a label: %s", abbreviate(model), problems[0])
	}
	return nil
}

// intern returns one copy of s for all that are equal.
func intern(known map[string]string, s string) string {
	if one, ok := known[s]; ok {
		return one
	}
	s = strings.Clone(s)
	known[s] = s
	return s
}
