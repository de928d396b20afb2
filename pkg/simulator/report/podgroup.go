// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"github.com/berth-scheduler/berth/pkg/output"
)

// PodGroup is what became of a PodGroup whose members arrived.
type PodGroup struct {
	// PodGroup is namespace/name.
	PodGroup string `json:"podGroup"`
	// MinCount is how many members start together at least; 0 if each starts for itself.
	MinCount int `json:"minCount"`
	// Members is how many there are, and Placed how many of them have a node: those that
	// had one before, Bound, and those that found one.
	Members int `json:"members"`
	Bound   int `json:"bound"`
	Placed  int `json:"placed"`
	// Proposed is how many found room in vain, because too few others did. Those behind the
	// member with which that was clear were not tried.
	Proposed int `json:"proposed"`
	// Message says why the scheduler could not place the PodGroup, or what keeps its
	// members out of the queue; empty if all have a node.
	Message string `json:"message,omitempty"`
	// Beside is as in [Event].
	Beside bool `json:"beside,omitempty"`
}

// RecordPodGroup takes note of a PodGroup whose members that arrived were all recorded;
// g has its name, MinCount, Bound and Message.
func (r *Recorder) RecordPodGroup(g PodGroup) {
	g.Members, g.Placed = g.Bound, g.Bound
	var first string
	for i := range r.placements {
		p := &r.placements[i]
		if p.PodGroup != g.PodGroup {
			continue
		}
		g.Members++
		switch {
		case p.Node != "":
			g.Placed++
		case p.Proposed != "":
			g.Proposed++
		default:
			first = cmp.Or(first, p.Message)
		}
	}
	g.Message = cmp.Or(g.Message, first)
	r.podGroups = append(r.podGroups, g)
}

// isWhole reports whether all members have a node.
func (g *PodGroup) isWhole() bool { return g.Placed == g.Members }

// partOf says how much of the PodGroup was placed.
func (g *PodGroup) partOf() string {
	text := fmt.Sprintf("%d of %d", g.Placed, g.Members)
	if g.Proposed > 0 {
		text += fmt.Sprintf(" (%d found room)", g.Proposed)
	}
	return text
}

// writePodGroups writes how much of each PodGroup was placed, first those that are not whole.
func writePodGroups(out *bytes.Buffer, groups []PodGroup) {
	if len(groups) == 0 {
		return
	}
	table := output.NewTable("PODGROUP", "MINCOUNT", "PLACED", "WHY")
	for _, g := range unplacedFirst(groups, func(g PodGroup) (beside, placed bool) { return g.Beside, g.isWhole() }) {
		minCount := ""
		if g.MinCount > 0 {
			minCount = strconv.Itoa(g.MinCount)
		}
		table.Add(g.PodGroup, minCount, g.partOf(), g.Message)
	}
	_ = table.Write(out) // a buffer takes everything
	fmt.Fprintln(out)
}
