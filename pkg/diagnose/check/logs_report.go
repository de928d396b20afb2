// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/pkg/output"
)

// Verdict is what logs show.
type Verdict string

// The verdicts.
const (
	// Clean is that the logs show everything, and nothing was found.
	Clean Verdict = "Clean"
	// Violated is that something was found. The logs may show more than that, or not enough.
	Violated Verdict = "Violation"
	// Insufficient is that nothing was found, and the logs do not show everything.
	Insufficient Verdict = "Insufficient"
)

// LogReport is what was found in audit logs, or in watch events.
type LogReport struct {
	// FormatVersion is [FormatVersion].
	FormatVersion int     `json:"formatVersion"`
	Verdict       Verdict `json:"verdict"`
	// First and Last are the times, or of watch events the resourceVersions, of the first and
	// the last write to a pod.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	// Events are the writes to pods that were read, Versions those of pods with shares.
	Events   int `json:"events"`
	Versions int `json:"versions"`
	Bindings int `json:"bindings"`
	// Violations are sorted by kind and object.
	Violations []LogViolation `json:"violations"`
	// Gaps say what the logs do not show, a line each.
	Gaps []string `json:"gaps,omitempty"`
}

// LogViolation is one thing that was wrong for some time.
type LogViolation struct {
	// Kind is what was wrong: Overcommitted, Torn (a node without a record, or a record without a
	// node), WrongRecord, Moved or WrongTenant.
	Kind string `json:"kind"`
	// Object is a device as node/index or node/UUID, or a pod as namespace/name.
	Object string   `json:"object"`
	Node   string   `json:"node,omitempty"`
	Pods   []string `json:"pods"`
	// First and Last are between when it was so, as in the report.
	First string `json:"first"`
	Last  string `json:"last"`
	// Writer is who wrote what made it so. Watch events do not show it.
	Writer oracle.Writer `json:"writer,omitzero"`
	// Message says it in words.
	Message string `json:"message"`
}

// maxWriter is how many bytes of a writer's name the table shows; its user agent is what it likes.
const maxWriter = 120

// LogOptions say what logs are checked.
type LogOptions struct {
	// Files are the logs, or folders of them; - is Stdin.
	Files []string
	Stdin io.Reader
	// Before is what existed before the logs began; nil if that is not known.
	Before *cluster.Cluster
	// Exempt are the namespaces whose pods may run on all tenants' nodes.
	Exempt []string
}

// Logs checks logs. The error is that one could not be read at all.
func Logs(o *LogOptions) (*LogReport, error) {
	l := &logs{}
	defer l.close()
	if err := l.add(o.Files, o.Stdin); err != nil {
		return nil, err
	}
	replay := newReplay(o)
	if err := l.replay(replay); err != nil {
		return nil, err
	}
	result := replay.Result()
	report := &LogReport{
		FormatVersion: FormatVersion, Verdict: Clean, First: moment(result.First), Last: moment(result.Last),
		Events: result.Events, Versions: result.Versions, Bindings: result.Bindings,
		Violations: []LogViolation{}, Gaps: append(l.gaps(), result.Gaps...),
	}
	for i := range result.Found {
		f := &result.Found[i]
		pods := f.Pods
		if pods == nil {
			pods = []string{f.Object}
		}
		report.Violations = append(report.Violations, LogViolation{
			Kind: string(f.Kind), Object: f.Object, Node: f.Node, Pods: pods, First: moment(f.First), Last: moment(f.Last), Writer: f.By, Message: f.Detail,
		})
	}
	switch {
	case len(report.Violations) > 0:
		report.Verdict = Violated
	case len(report.Gaps) > 0:
		report.Verdict = Insufficient
	}
	return report, nil
}

// newReplay returns a replay that knows what existed before the logs.
func newReplay(o *LogOptions) *oracle.Replay {
	if o.Before == nil {
		return oracle.NewReplay(o.Exempt, nil, nil, nil)
	}
	nodes, namespaces, pods := []corev1.Node{}, []corev1.Namespace{}, []corev1.Pod{}
	for _, node := range o.Before.Nodes() {
		nodes = append(nodes, *node)
	}
	for _, pod := range o.Before.Pods() {
		pods = append(pods, *pod)
	}
	for _, other := range o.Before.Others() {
		if namespace, ok := other.(*corev1.Namespace); ok {
			namespaces = append(namespaces, *namespace)
		}
	}
	return oracle.NewReplay(o.Exempt, nodes, namespaces, pods)
}

// moment writes a time of an audit log, or the resourceVersion of a watch event.
func moment(at uint64) string {
	switch {
	case at <= 1:
		return "" // before the log began
	case at > 1e15:
		return time.UnixMicro(int64(at)).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	}
	return strconv.FormatUint(at, 10)
}

// WriteTable writes the violations for people, a row each.
func (r *LogReport) WriteTable(w io.Writer) error {
	if len(r.Violations) > 0 {
		table := output.NewTable("KIND", "OBJECT", "FIRST", "LAST", "PODS", "WRITER", "WHAT")
		for i := range r.Violations {
			v := &r.Violations[i]
			writer := strings.TrimSpace(v.Writer.User + " " + v.Writer.UserAgent)
			table.Add(v.Kind, v.Object, cmp.Or(v.First, "before"), v.Last, strings.Join(v.Pods, ","), cmp.Or(messages.CutTo(writer, maxWriter), "-"), v.Message)
		}
		if err := table.Write(w); err != nil {
			return err
		}
	}
	var summary string
	switch r.Verdict {
	case Clean:
		summary = "Nothing was found"
	case Violated:
		summary = output.Count(len(r.Violations), "violation")
	case Insufficient:
		summary = "The log is not sufficient: it shows no violation, but does not show everything"
	}
	_, err := fmt.Fprintf(w, "%s: %s to pods, %s of pods with shares, %s from %s to %s\n",
		summary, output.Count(r.Events, "write"), output.Count(r.Versions, "version"), output.Count(r.Bindings, "Binding"), cmp.Or(r.First, "-"), cmp.Or(r.Last, "-"))
	return err
}
