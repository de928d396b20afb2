// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// standardInput is the name of the file that is read from the standard input.
const standardInput = "-"

// input is all that was read: a cluster, with pods that are pending or in a trace.
type input struct {
	files []report.File
	// cluster has the nodes of the trace, too.
	cluster *cluster.Cluster
	trace   trace.Trace
	// notes are what the user should know, a line each.
	notes []string
}

// fromTrace reports whether the pods that arrive are those of a trace.
func (in *input) fromTrace() bool { return len(in.trace.Pods) > 0 }

// arriving is how many pods the input has to be scheduled.
func (in *input) arriving() int {
	if in.fromTrace() {
		return len(in.trace.Pods)
	}
	return len(in.cluster.Pending())
}

// usualPods are the pods that stand for what is expected: those of the trace, as in
// the paper, and all of a cluster, bound ones too.
func (in *input) usualPods() iter.Seq[*corev1.Pod] {
	if !in.fromTrace() {
		return slices.Values(in.cluster.Pods())
	}
	return func(yield func(*corev1.Pod) bool) {
		for i := range in.trace.Pods {
			if !yield(in.trace.Pods[i].Object("")) {
				return
			}
		}
	}
}

// readInput reads all files and the cluster.
func readInput(ctx context.Context, o *Options) (*input, error) {
	in := &input{}
	objects, files := cluster.NewReader(), 0
	objects.Namespace = o.Namespace
	var names []string
	for _, name := range o.Files {
		inFolder, err := cluster.Files(name)
		if err != nil {
			return nil, fmt.Errorf("-f: %w", err)
		}
		names = append(names, inFolder...)
	}
	for _, name := range names {
		isTrace, err := in.readFile(name, o.Stdin, objects)
		if err != nil {
			return nil, err
		}
		if !isTrace {
			files++
		}
	}
	var notes []cluster.Note
	switch {
	case o.Client == nil:
		in.cluster, notes = objects.Cluster()
	case files > 0:
		return nil, optionErrorf("--kubeconfig", "the cluster would mix with the one of the files: name one of the two")
	default:
		var err error
		if in.cluster, notes, err = cluster.List(ctx, o.Client); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Host, err)
		}
		in.files = append(in.files, report.File{Path: o.Host})
	}
	for _, note := range notes {
		in.notes = append(in.notes, note.String())
	}
	for i := range in.trace.Nodes {
		if err := in.cluster.Add(in.trace.Nodes[i].Object()); err != nil {
			return nil, fmt.Errorf("node %q of the trace: %w", in.trace.Nodes[i].Name, err)
		}
	}
	return in, in.check(o)
}

// readFile reads one file of either kind, and tells of which it is: of the trace,
// by its name or its first line, or of objects.
func (in *input) readFile(name string, stdin io.Reader, objects *cluster.Reader) (isTrace bool, err error) {
	var content []byte
	if name == standardInput {
		content, err = io.ReadAll(stdin)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return false, fmt.Errorf("-f: %w", err)
	}
	in.files = append(in.files, report.File{Path: name, SHA256: hash(content)})
	header, _, _ := bytes.Cut(content, []byte("\n"))
	if strings.EqualFold(filepath.Ext(name), ".csv") || trace.IsHeader(header) {
		return true, in.trace.Read(name, content)
	}
	return false, objects.Read(name, content)
}

// check refuses input from which nothing can be simulated.
func (in *input) check(o *Options) error {
	pending := len(in.cluster.Pending())
	switch {
	case len(in.cluster.Nodes()) == 0:
		return errors.New("no nodes in the input: add a file with nodes, for example the output of \"kubectl get nodes -o yaml\"")
	case in.arriving() == 0:
		return errors.New("no pods to schedule in the input: add a file with pending pods (without spec.nodeName), with a Deployment, StatefulSet, ReplicaSet or Job that is not in a cluster yet, or a CSV file of pods")
	case in.fromTrace() && pending > 0:
		return fmt.Errorf("the input has pods of a trace and %d pending pods of a cluster: simulate them one after the other", pending)
	case !in.fromTrace() && o.TargetLoadSet:
		return optionErrorf("--target-load", "only pods from a CSV file can be brought to a load")
	}
	// Models that no node has are known only if all nodes are the trace's.
	if len(in.cluster.Nodes()) == len(in.trace.Nodes) {
		for _, err := range in.trace.UnknownModels() {
			in.notes = append(in.notes, err.Error())
		}
	}
	return nil
}

// withWholeDevices returns the cluster with the nodes of the trace in another form.
func (in *input) withWholeDevices(whole *trace.WholeDevices) *cluster.Cluster {
	rows := make(map[string]*trace.Node, len(in.trace.Nodes))
	for i := range in.trace.Nodes {
		rows[in.trace.Nodes[i].Name] = &in.trace.Nodes[i]
	}
	return in.cluster.WithNodes(func(node *corev1.Node) *corev1.Node {
		if row, ok := rows[node.Name]; ok {
			return whole.Node(row)
		}
		return node
	})
}
