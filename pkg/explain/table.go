// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/berth-scheduler/berth/pkg/output"
)

// How much a table has of what a wide one has all.
const (
	shownGroups = 5
	shownScores = 3
)

// WriteTable writes the explanation for people: the answer, what it rests on, the nodes
// by why they cannot take the pod, and what would help. wide adds every group, and the
// scores of the feasible nodes by plugin.
func (x *Explanation) WriteTable(w io.Writer, wide bool) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n", output.Line(x.Answer))
	x.writeFacts(&out)
	x.writeGroups(&out, wide)
	x.writeFeasible(&out, wide)
	x.writeChanges(&out)
	for _, text := range x.NotSeen {
		fmt.Fprintf(&out, "Not seen: %s\n", output.Line(text))
	}
	for _, text := range x.Notes {
		fmt.Fprintf(&out, "Note: %s\n", output.Line(text))
	}
	_, err := io.WriteString(w, strings.TrimRight(out.String(), "\n")+"\n")
	return err
}

// writeFacts writes a line for each thing that is known of the pod.
func (x *Explanation) writeFacts(out io.Writer) {
	rows := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title string, texts ...string) {
		for _, text := range texts {
			if text != "" {
				fmt.Fprintf(rows, "%s:\t%s\n", title, output.Line(text))
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
	rows.Flush()
}

// writeGroups writes the nodes that cannot take the pod.
func (x *Explanation) writeGroups(out io.Writer, wide bool) {
	if len(x.Groups) == 0 {
		return
	}
	fmt.Fprintf(out, "\nWhy not, the nearest first (%s in all):\n", output.Count(x.Nodes, "node"))
	for i, group := range x.Groups {
		if i == shownGroups && !wide {
			rest := 0
			for _, other := range x.Groups[i:] {
				rest += other.Count
			}
			fmt.Fprintf(out, "  and %s for other reasons: -o wide\n", output.Count(rest, "node"))
			return
		}
		names := strings.Join(group.Names, ", ")
		if group.Count > len(group.Names) {
			names += ", …"
		}
		fmt.Fprintf(out, "  %s: %s\n", output.Count(group.Count, "node"), names)
		for _, v := range group.Verdicts {
			fmt.Fprintf(out, "    %s: %s\n", v.Plugin, output.Line(strings.TrimPrefix(v.Reason, "node(s) ")))
			if v.Detail != "" {
				fmt.Fprintf(out, "      %s: %s\n", group.Names[0], output.Line(v.Detail))
			}
		}
	}
}

// writeFeasible writes the nodes that can take the pod.
func (x *Explanation) writeFeasible(out io.Writer, wide bool) {
	if len(x.Feasible) < 2 && !wide || len(x.Feasible) == 0 {
		return
	}
	fmt.Fprintf(out, "\nCan take it (%d of %s), the best first:\n", len(x.Feasible), output.Count(x.Nodes, "node"))
	rows := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, node := range x.Feasible {
		if i == shownScores && !wide {
			fmt.Fprintf(rows, "  …\t-o wide\n")
			break
		}
		fmt.Fprintf(rows, "  %s\t%d", node.Node, node.Total)
		if wide {
			var scores []string
			for _, score := range node.Scores {
				scores = append(scores, fmt.Sprintf("%s %d", score.Plugin, score.Score))
			}
			fmt.Fprintf(rows, "\t%s", strings.Join(scores, ", "))
		}
		fmt.Fprintln(rows)
	}
	rows.Flush()
}

// writeChanges writes what would help.
func (x *Explanation) writeChanges(out io.Writer) {
	if x.State.Placed() {
		return
	}
	if len(x.Changes) == 0 {
		if x.State == Unschedulable || x.State == Waiting && x.Gang != nil && x.Gang.Found {
			fmt.Fprint(out, "\nNone of the changes that were tried would help, alone or with another.\n")
		}
		return
	}
	fmt.Fprint(out, "\nWhat would help, the smallest change first (each was tried on these objects):\n")
	for _, change := range x.Changes {
		fmt.Fprintf(out, "  %-8s %s\n", change.Who, output.Line(change.Text))
		if change.Command != "" {
			fmt.Fprintf(out, "  %-8s   %s\n", "", output.Line(change.Command))
		}
	}
	fmt.Fprintln(out)
}
