// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Trace is a cluster and the pods that arrive at it, as rows of files.
type Trace struct {
	// Nodes and Pods are the rows in the order in which they were read.
	Nodes []Node
	Pods  []Pod

	// nodeAt and podAt are where a name was seen first.
	nodeAt, podAt map[string]origin
}

// origin is where a row comes from.
type origin struct {
	file string
	line int
}

// IsHeader reports whether the line looks like the header of a file of the trace:
// it has columns, and one of them is cpu_milli. What a file of Kubernetes objects
// begins with never does.
func IsHeader(line []byte) bool {
	text := strings.TrimPrefix(strings.TrimRight(string(line), "\r\n"), byteOrderMark)
	return slices.Contains(strings.Split(strings.ReplaceAll(text, `"`, ""), ","), "cpu_milli")
}

// Read adds the rows of a file of nodes or of pods, told apart by the header. The
// name of the file stands in errors, which are of type *[Error]; after one the
// Trace is of no use.
func (t *Trace) Read(file string, content []byte) error {
	if t.nodeAt == nil {
		t.nodeAt, t.podAt = map[string]origin{}, map[string]origin{}
	}
	table, err := newTable(file, content)
	if err != nil {
		return err
	}
	const nodeName, podName = "sn", "name"
	isNodes, isPods := slices.Contains(table.header, nodeName), slices.Contains(table.header, podName)
	switch {
	case isNodes && !isPods:
		return rows(table, nodeColumns, func(node *Node, line int) error {
			t.Nodes = append(t.Nodes, *node)
			return addName(nodeName, node.Name, origin{file, line}, t.nodeAt)
		})
	case isPods && !isNodes:
		return rows(table, podColumns, func(pod *Pod, line int) error {
			t.Pods = append(t.Pods, *pod)
			return addName(podName, pod.Name, origin{file, line}, t.podAt)
		})
	}
	return &Error{File: file, Line: 1, Column: 1, Err: fmt.Errorf(
		"the header %q is neither that of a node list, which has a column %q, nor that of a pod list, which has a column %q",
		abbreviate(strings.Join(table.header, ",")), nodeName, podName)}
}

// addName takes note of a name, and refuses one that was seen before.
func addName(column, name string, at origin, seen map[string]origin) error {
	if first, ok := seen[name]; ok {
		return fmt.Errorf("%s: %q is given more than once, first at %s:%d", column, name, first.file, first.line)
	}
	seen[name] = at
	return nil
}

// DeviceMilli returns the compute of all devices of all nodes, in thousandths of a
// device.
func (t *Trace) DeviceMilli() int64 {
	var sum int64
	for i := range t.Nodes {
		sum += t.Nodes[i].DeviceMilli()
	}
	return sum
}

// UnknownModels returns one error for each model that pods accept and no node has,
// at the first pod that names it. Such a pod is not wrong: it may accept another
// model, or be what is asked about. It may also be a typo.
func (t *Trace) UnknownModels() []error {
	var errs []error
	known := map[string]bool{}
	var models []string
	for i := range t.Nodes {
		if model := t.Nodes[i].Model; model != "" && !known[strings.ToLower(model)] {
			known[strings.ToLower(model)] = true
			models = append(models, model)
		}
	}
	slices.Sort(models)
	seen := map[string]bool{}
	for i := range t.Pods {
		p := &t.Pods[i]
		if p.Models == "" || seen[p.Models] {
			continue
		}
		seen[p.Models] = true
		for model := range strings.SplitSeq(p.Models, modelSeparator) {
			if known[strings.ToLower(model)] {
				continue
			}
			known[strings.ToLower(model)] = true // said once
			at := t.podAt[p.Name]
			errs = append(errs, &Error{File: at.file, Line: at.line, Column: 1, Err: fmt.Errorf(
				"gpu_spec of pod %s: no node has the model %q; the nodes have %s", p.Name, model, cmp.Or(strings.Join(models, ", "), "none"))})
		}
	}
	return errs
}
