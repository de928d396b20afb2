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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
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
	// manifests is whether some of the pending pods come from no API server: they alone are
	// asked about.
	manifests bool
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

// readInput reads all files and, if that is asked for or they have no nodes, the cluster.
func readInput(ctx context.Context, o *Options) (*input, error) {
	in := &input{}
	objects := cluster.NewReader()
	objects.Namespace = o.Namespace
	if len(o.Profiles) == 0 && o.Running != nil {
		objects.Keep = o.Running.Keep
	}
	for _, name := range o.Files {
		files, err := cluster.Files(name)
		if err != nil {
			return nil, fmt.Errorf("-f: %w", err)
		}
		for _, file := range files {
			if err := in.readFile(file, o.Stdin, objects); err != nil {
				return nil, err
			}
		}
	}
	notes, err := in.readCluster(ctx, o, objects)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		in.notes = append(in.notes, note.String())
	}
	for i := range in.trace.Nodes {
		if err := in.cluster.Add(in.trace.Nodes[i].Object()); err != nil {
			return nil, fmt.Errorf("node %q of the trace: %w", in.trace.Nodes[i].Name, err)
		}
	}
	in.manifests = slices.ContainsFunc(in.cluster.Pending(), cluster.IsWritten)
	if err := in.addTraceNamespace(); err != nil {
		return nil, err
	}
	return in, in.check(o)
}

// addTraceNamespace adds the namespace of the trace's pods, which no file has: rules of a
// profile may ask for its labels.
func (in *input) addTraceNamespace() error {
	if !in.fromTrace() {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: trace.Namespace, Labels: map[string]string{corev1.LabelMetadataName: trace.Namespace},
	}}
	if err := in.cluster.Add(namespace); err != nil {
		return fmt.Errorf("the namespace of the trace's pods: %w", err)
	}
	return nil
}

// readCluster makes the cluster of the objects that were read or, if a cluster is read, of
// its objects with them.
func (in *input) readCluster(ctx context.Context, o *Options, objects *cluster.Reader) ([]cluster.Note, error) {
	nodes := objects.Has("nodes")
	if o.Connect == nil || !o.ClusterAsked && (nodes || len(in.trace.Nodes) > 0) {
		var notes []cluster.Note
		in.cluster, notes = objects.Cluster()
		return notes, nil
	}
	if nodes {
		return nil, optionErrorf("--kubeconfig, --context", "the nodes of that cluster would mix with those of the files: leave one of the two out")
	}
	client, host, err := o.Connect()
	if err != nil {
		return nil, err
	}
	listed, notes, err := cluster.List(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	if len(o.Profiles) == 0 && o.Running != nil {
		if err := o.Running.Read(ctx, client); err != nil {
			return nil, fmt.Errorf("%s: %w", host, err)
		}
	}
	in.files = append(in.files, report.File{Path: host})
	var more []cluster.Note
	in.cluster, more = objects.Onto(listed)
	return append(notes, more...), nil
}

// readFile reads one file: of the trace, which is known by its name or its first line, or
// of objects.
func (in *input) readFile(name string, stdin io.Reader, objects *cluster.Reader) (err error) {
	var content []byte
	if name == standardInput {
		content, err = io.ReadAll(stdin)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return fmt.Errorf("-f: %w", err)
	}
	in.files = append(in.files, report.File{Path: name, SHA256: hash(content)})
	header, _, _ := bytes.Cut(content, []byte("\n"))
	if strings.EqualFold(filepath.Ext(name), ".csv") || trace.IsHeader(header) {
		return in.trace.Read(name, content)
	}
	return objects.Read(name, content)
}

// check refuses input from which nothing can be simulated.
func (in *input) check(o *Options) error {
	pending := len(in.cluster.Pending())
	switch {
	case len(in.cluster.Nodes()) == 0:
		return errors.New("no nodes in the input: name a cluster with --kubeconfig or --context, or add a file with nodes, for example the output of \"kubectl get nodes -o yaml\"")
	case in.arriving() == 0:
		return fmt.Errorf("no pods to schedule in the input%s: add a file with pending pods (without spec.nodeName), with a Deployment, StatefulSet, ReplicaSet, Job or CronJob that is not in a cluster yet, or a CSV file of pods", in.leftOut())
	case in.fromTrace() && pending > 0:
		return fmt.Errorf("the input has pods of a trace and %d pending pods of a cluster: simulate them one after the other", pending)
	case !in.fromTrace() && o.TargetLoadSet:
		return optionErrorf("--target-load", "a target load applies only to pods from a CSV file")
	}
	// Models that no node has are known only if all nodes are the trace's.
	if len(in.cluster.Nodes()) == len(in.trace.Nodes) {
		for _, err := range in.trace.UnknownModels() {
			in.notes = append(in.notes, err.Error())
		}
	}
	return nil
}

// leftOut tells what was read and not taken, in brackets.
func (in *input) leftOut() string {
	if len(in.notes) == 0 {
		return ""
	}
	return " (" + strings.Join(in.notes, "; ") + ")"
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
