// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

// How much the first screen shows of what a wide one shows in full.
const (
	shownFacts   = 2
	shownChanges = 3
)

// WriteTable writes the explanation for people. The first screen has at most 12 lines: the
// answer with the nearest node, other obstacles, and the smallest changes that would help.
// wide adds the facts, all nodes by cause, every change, and the scores of the feasible
// nodes by plugin.
func (x *Explanation) WriteTable(w io.Writer, wide bool) error {
	var out strings.Builder
	fmt.Fprintln(&out, output.Line(x.Answer))
	if wide {
		fmt.Fprintln(&out)
		x.writeFacts(&out)
		x.writeGroups(&out)
		x.writeFeasible(&out)
		x.writeChanges(&out, x.Changes)
		for _, text := range x.NotSeen {
			fmt.Fprintf(&out, "Not seen: %s\n", output.Line(text))
		}
		for _, text := range x.Notes {
			fmt.Fprintf(&out, "Note: %s\n", output.Line(text))
		}
	} else {
		x.writeFirst(&out)
	}
	_, err := io.WriteString(w, strings.TrimRight(out.String(), "\n")+"\n")
	return err
}

// writeFirst writes the first screen after the answer.
func (x *Explanation) writeFirst(out *strings.Builder) {
	facts := x.besides()
	for i, fact := range facts {
		if i == shownFacts {
			break
		}
		fmt.Fprintln(out, output.Line(fact))
	}
	changes := x.Changes[:min(len(x.Changes), shownChanges)]
	x.writeChanges(out, changes)
	var more []string
	if n := len(x.Changes) - len(changes); n > 0 && !x.State.Placed() {
		more = append(more, output.Count(n, "more change"))
	}
	if n := len(facts) - shownFacts; n > 0 {
		more = append(more, output.Count(n, "more remark"))
	}
	if x.hasGroups() && x.Nodes > 1 {
		more = append(more, "all nodes")
	}
	if len(x.Feasible) > 1 {
		more = append(more, "the scores of the nodes")
	}
	if len(more) > 0 {
		fmt.Fprintf(out, "-o wide shows %s.\n", strings.Join(more, ", "))
	}
}

// besides returns other obstacles to the pod or the explanation, without those that the
// answer has already.
func (x *Explanation) besides() []string {
	var facts []string
	add := func(title string, texts ...string) {
		for _, text := range texts {
			if text != "" && !strings.Contains(x.Answer, text) {
				facts = append(facts, title+": "+text)
			}
		}
	}
	if x.Scheduler.notRunning {
		add("Scheduler", x.Scheduler.Text)
	}
	for _, gate := range x.Gates {
		if name, _, _ := strings.Cut(gate, ": "); !strings.Contains(x.Answer, "scheduling gate "+name+" ") {
			add("Gate", gate)
		}
	}
	add("Admission", x.Admission...)
	add("No effect", x.Keys...)
	if x.Gang != nil && x.Gang.Members < x.Gang.Needed {
		add("Gang", x.Gang.Text)
	}
	if len(x.Feasible) > 0 {
		add("Approximate", x.Approximate)
	}
	if len(x.NotSeen) > 1 {
		facts = append(facts, fmt.Sprintf("Not seen: %s (and %d more)", x.NotSeen[0], len(x.NotSeen)-1))
	} else {
		add("Not seen", x.NotSeen...)
	}
	return facts
}

// writeFacts writes a line for each fact about the pod.
func (x *Explanation) writeFacts(out io.Writer) {
	rows := output.NewTable()
	row := func(title string, texts ...string) {
		for _, text := range texts {
			if text != "" {
				rows.Add(title+":", text)
			}
		}
	}
	if x.Of != "" && x.Of != "Pod "+x.Pod {
		row("Of", x.Of)
	}
	row("Scheduler", x.Scheduler.Name+": "+x.Scheduler.Text)
	row("Profile", x.Scheduler.Profile)
	row("Gate", x.Gates...)
	row("Admission", x.Admission...)
	row("No effect", x.Keys...)
	if x.Gang != nil {
		row("Gang", x.Gang.Text)
	}
	if x.Preemption != nil {
		row("Preemption", x.Preemption.Text)
	}
	for _, refusal := range x.Refusals {
		row("Refused", refusal.Plugin+": "+refusal.Reason)
	}
	if len(x.Feasible) > 0 {
		row("Approximate", x.Approximate)
	}
	_ = rows.Write(out) // a builder takes everything
}

// hasGroups reports whether the nodes are to be shown: where a plugin rejected the pod
// before it looked at nodes, only its own verdicts on nodes matter.
func (x *Explanation) hasGroups() bool {
	return len(x.Groups) > 0 && (len(x.Refusals) == 0 || x.refusedOn(&x.Groups[0]))
}

// writeGroups writes the nodes that cannot take the pod.
func (x *Explanation) writeGroups(out io.Writer) {
	if !x.hasGroups() {
		return
	}
	fmt.Fprintf(out, "\nNodes that cannot take the pod, the nearest first (%s in all):\n", output.Count(x.Nodes, "node"))
	told := map[string]bool{}
	for i := range x.Groups {
		group := &x.Groups[i]
		names := strings.Join(group.Names, ", ")
		switch {
		case len(group.Names) == 0:
			names = "hidden by tenancy"
		case group.Count > len(group.Names):
			names += ", …"
		}
		fmt.Fprintf(out, "  %s: %s\n", output.Count(group.Count, "node"), names)
		for j := range group.Verdicts {
			v := &group.Verdicts[j]
			fmt.Fprintf(out, "    %s: %s\n", v.Plugin, output.Line(strings.TrimLeft(v.clause(group.Count), ": ")))
			if v.Detail != "" && len(group.Names) > 0 && !told[v.Plugin+v.Detail] {
				told[v.Plugin+v.Detail] = true
				fmt.Fprintf(out, "      %s: %s\n", group.Names[0], output.Line(v.Detail))
			}
		}
	}
}

// refusedOn reports whether a plugin that rejects the pod for all nodes has a verdict on the
// group.
func (x *Explanation) refusedOn(g *Group) bool {
	return slices.ContainsFunc(g.Verdicts, func(v Verdict) bool {
		return slices.ContainsFunc(x.Refusals, func(refusal Verdict) bool { return refusal.Plugin == v.Plugin })
	})
}

// writeFeasible writes the nodes that can take the pod.
func (x *Explanation) writeFeasible(out io.Writer) {
	if len(x.Feasible) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%d of %s can take the pod, the best first:\n", len(x.Feasible), output.Count(x.Nodes, "node"))
	rows := output.Table{Indent: "  "}
	for _, node := range x.Feasible {
		var scores []string
		for _, score := range node.Scores {
			scores = append(scores, fmt.Sprintf("%s %d", score.Plugin, score.Score))
		}
		rows.Add(node.Node, node.Total, strings.Join(scores, ", "))
	}
	_ = rows.Write(out)
}

// writeChanges writes what would help.
func (x *Explanation) writeChanges(out io.Writer, changes []Change) {
	if x.State.Placed() {
		return
	}
	if len(changes) == 0 {
		if x.State == Unschedulable || x.State == Waiting && x.Gang != nil && x.Gang.Found {
			fmt.Fprint(out, "\nNone of the changes that were tried would help, alone or combined.\n")
		}
		return
	}
	fmt.Fprint(out, "\nWhat would help, the smallest change first (each was tried on these objects):\n")
	for _, change := range changes {
		fmt.Fprintf(out, "  %-8s %s\n", change.Who, output.Line(change.Text))
		if change.Command != "" {
			fmt.Fprintf(out, "  %-8s   %s\n", "", output.Line(change.Command))
		}
	}
}
