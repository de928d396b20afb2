// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	trace   *trace.Trace
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

// readInput reads all files and the cluster.
func readInput(ctx context.Context, o *simulateOptions, stdin io.Reader) (*input, error) {
	in := &input{trace: &trace.Trace{}}
	objects, files := cluster.NewReader(), 0
	objects.Namespace = o.namespace
	for _, name := range o.files {
		isTrace, err := in.readFile(name, stdin, objects)
		if err != nil {
			return nil, err
		}
		if !isTrace {
			files++
		}
	}
	switch {
	case !o.fromCluster():
		var notes []cluster.Note
		in.cluster, notes = objects.Cluster()
		in.addNotes(notes)
	case files > 0:
		return nil, usagef("--kubeconfig: the cluster would mix with the one of the files: name one of the two")
	default:
		if err := in.list(ctx, o.kubeconfig, o.kubecontext); err != nil {
			return nil, err
		}
	}
	for i := range in.trace.Nodes {
		if err := in.cluster.Add(in.trace.Nodes[i].Object()); err != nil {
			return nil, fmt.Errorf("node %q of the trace: %w", in.trace.Nodes[i].Name, err)
		}
	}
	return in, in.check(o)
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

// check refuses input from which nothing can be simulated.
func (in *input) check(o *simulateOptions) error {
	pending := len(in.cluster.Pending())
	switch {
	case len(in.cluster.Nodes()) == 0:
		return errors.New("no nodes in the input: add a file with nodes, for example the output of \"kubectl get nodes -o yaml\"")
	case in.arriving() == 0:
		return errors.New("no pods to schedule in the input: add a file with pending pods (without spec.nodeName), with a Deployment, StatefulSet, ReplicaSet or Job that is not in a cluster yet, or a CSV file of pods")
	case in.fromTrace() && pending > 0:
		return fmt.Errorf("the input has pods of a trace and %d pending pods of a cluster: simulate them one after the other", pending)
	case !in.fromTrace() && o.targetLoadSet:
		return usagef("--target-load: only pods from a CSV file can be brought to a load")
	}
	for _, err := range in.unknownModels() {
		in.notes = append(in.notes, err.Error())
	}
	return nil
}

// unknownModels are models that pods of the trace accept and no node has. They are
// known only if all nodes are the trace's.
func (in *input) unknownModels() []error {
	if len(in.cluster.Nodes()) != len(in.trace.Nodes) {
		return nil
	}
	return in.trace.UnknownModels()
}

// readFile reads one file of either kind, and tells of which it is: of the trace,
// or of objects.
func (in *input) readFile(name string, stdin io.Reader, objects *cluster.Reader) (isTrace bool, err error) {
	source := stdin
	if name != standardInput {
		file, err := os.Open(name)
		if err != nil {
			return false, fmt.Errorf("-f: %w", err)
		}
		defer file.Close()
		source = file
	}
	sum := sha256.New()
	content := bufio.NewReaderSize(io.TeeReader(source, sum), 1<<16)
	if isTrace, err = looksLikeTrace(name, content); err != nil {
		return false, fmt.Errorf("-f %s: %w", name, err)
	}
	if isTrace {
		err = in.trace.Read(content, name)
	} else {
		err = objects.Read(name, content)
	}
	if err != nil {
		return false, err
	}
	// What no reader needed, such as blank lines at the end, belongs to the file.
	if _, err := io.Copy(io.Discard, content); err != nil {
		return false, fmt.Errorf("-f %s: %w", name, err)
	}
	in.files = append(in.files, report.File{Path: name, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return isTrace, nil
}

// looksLikeTrace reports whether a file is a CSV file of the trace: by its name, or
// by its first line.
func looksLikeTrace(name string, content *bufio.Reader) (bool, error) {
	if strings.EqualFold(filepath.Ext(name), ".csv") {
		return true, nil
	}
	start, err := content.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	line, _, _ := strings.Cut(string(start), "\n")
	return trace.IsHeader(line), nil
}
