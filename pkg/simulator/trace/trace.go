// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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

// columns that tell the two kinds of files apart.
const (
	nodeNameColumn = "sn"
	podNameColumn  = "name"
	cpuColumn      = "cpu_milli"
	memoryColumn   = "memory_mib"
)

// IsHeader reports whether the line looks like the header of a file of the trace:
// it has columns, and one of them is cpu_milli. What a file of Kubernetes objects
// begins with never does.
func IsHeader(line string) bool {
	line = strings.TrimPrefix(strings.TrimRight(line, "\r\n"), byteOrderMark)
	return slices.Contains(strings.Split(strings.ReplaceAll(line, `"`, ""), ","), cpuColumn)
}

// Read adds the rows of a file of nodes or of pods, told apart by the header. The
// name of the file stands in errors, which are of type *[Error]; after one the
// Trace is of no use.
func (t *Trace) Read(in io.Reader, file string) error {
	if t.nodeAt == nil {
		t.nodeAt, t.podAt = map[string]origin{}, map[string]origin{}
	}
	table, err := newTable(in, file)
	if err != nil {
		return err
	}
	isNodes, isPods := slices.Contains(table.header, nodeNameColumn), slices.Contains(table.header, podNameColumn)
	switch {
	case isNodes && !isPods:
		return t.readNodes(table)
	case isPods && !isNodes:
		return t.readPods(table)
	}
	return &Error{File: file, Line: 1, Column: 1, Err: fmt.Errorf(
		"the header %q is neither that of a node list, which has a column %q, nor that of a pod list, which has a column %q",
		abbreviate(strings.Join(table.header, ",")), nodeNameColumn, podNameColumn)}
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
				"%s of pod %s: no node has the model %q; the nodes have %s", specColumn, p.Name, model, cmp.Or(strings.Join(models, ", "), "none"))})
		}
	}
	return errs
}

// addName takes note of a name, and refuses one that was seen before.
func addName(table *table, field int, seen map[string]origin) (string, error) {
	name := strings.Clone(table.row[field]) // the row's memory is used again
	if first, ok := seen[name]; ok {
		return "", table.at(field, fmt.Errorf("%s: %q stands twice, first at %s:%d", table.header[field], name, first.file, first.line))
	}
	seen[name] = origin{file: table.file, line: table.line()}
	return name, nil
}

// errNoRows is for a file that has a header alone.
var errNoRows = errors.New("has a header and no row")
