// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/output"
)

// Answer is whether the pods fit that were asked about: those of manifests or, without
// manifests, all that are pending.
type Answer struct {
	// Fits is whether each of them found a node, and no pod was evicted.
	Fits bool `json:"fits"`
	// Pods is how many there are, Placed how many of them found a node, and Evicted how
	// many pods had to go for them.
	Pods    int `json:"pods"`
	Placed  int `json:"placed"`
	Evicted int `json:"evicted"`
	// PodGroups is how many PodGroups the pods are of, and Whole of how many of them all
	// members have a node.
	PodGroups int `json:"podGroups,omitempty"`
	Whole     int `json:"podGroupsWhole,omitempty"`
	// Text is the same in a sentence.
	Text string `json:"text"`
}

// answerOf sums up a run.
func answerOf(run *Run) *Answer {
	a := &Answer{}
	others, othersPlaced := 0, 0
	for i := range run.Placements {
		p := &run.Placements[i]
		if p.Beside {
			others++
			if p.Node != "" {
				othersPlaced++
			}
			continue
		}
		a.Pods++
		a.Evicted += len(p.Evicts)
		if p.Node != "" {
			a.Placed++
		}
	}
	a.Fits = a.Placed == a.Pods && a.Evicted == 0
	a.Text = howManyFit(a.Placed, a.Pods)
	for i := range run.PodGroups {
		if g := &run.PodGroups[i]; !g.Beside {
			a.PodGroups++
			if g.isWhole() {
				a.Whole++
			}
		}
	}
	if a.PodGroups > 0 {
		a.Text += fmt.Sprintf("; %d of %s placed whole", a.Whole, output.Count(a.PodGroups, "PodGroup"))
	}
	if a.Evicted > 0 {
		a.Text += fmt.Sprintf("; %s evicted for that", wouldBe(a.Evicted))
	}
	if others > 0 {
		a.Text += fmt.Sprintf("; of %s pending beside, %d found a node", output.Count(others, "pod"), othersPlaced)
	}
	return a
}

// howManyFit says how many of the pods were placed.
func howManyFit(placed, pods int) string {
	switch {
	case placed < pods && pods == 1:
		return "the pod does not fit"
	case placed == 0 && pods > 0:
		return fmt.Sprintf("none of the %d pods fits", pods)
	case placed == 1 && pods > 1:
		return fmt.Sprintf("only 1 of %d pods fits", pods)
	case placed < pods:
		return fmt.Sprintf("only %d of %d pods fit", placed, pods)
	case pods == 1:
		return "the pod fits"
	default:
		return fmt.Sprintf("all %d pods fit", pods)
	}
}

func wouldBe(pods int) string {
	if pods == 1 {
		return "1 pod is"
	}
	return fmt.Sprintf("%d pods are", pods)
}

// writeAnswers writes whether the pods fit, and of each where or why not. Those that were
// not placed come first.
func (r *Report) writeAnswers(out *bytes.Buffer) {
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if p.Answer == nil {
			continue
		}
		text := strings.ToUpper(p.Answer.Text[:1]) + p.Answer.Text[1:]
		if len(r.Profiles) > 1 {
			text = p.Name + ": " + p.Answer.Text
		}
		fmt.Fprintf(out, "%s.\n\n", text)
		writePodGroups(out, p.PodGroups)
		writePlacements(out, p.Placements)
		fmt.Fprintln(out)
	}
}

func writePlacements(out *bytes.Buffer, placements []Placement) {
	table := output.NewTable("POD", "NODE", "DEVICES", "WHY")
	for _, p := range unplacedFirst(placements, func(p Placement) (beside, placed bool) { return p.Beside, p.Node != "" }) {
		table.Add(p.Pod, cmp.Or(p.Node, "(none)"), p.devices(), p.why())
	}
	_ = table.Write(out) // a buffer takes everything
}

// unplacedFirst sorts what was not placed before what was, and what is not asked about last.
func unplacedFirst[T any](all []T, state func(T) (beside, placed bool)) []T {
	rank := func(one T) int {
		switch beside, placed := state(one); {
		case beside:
			return 2
		case placed:
			return 1
		}
		return 0
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted
}

// devices writes the devices of the pod: those of its shares, then those of its claims.
func (p *Placement) devices() string {
	var parts []string
	if p.Devices != "" {
		parts = append(parts, p.Devices)
	}
	return strings.Join(append(parts, cluster.DeviceNames(p.Claimed)...), ", ")
}

// why says in a line what there is to be said of the pod.
func (p *Placement) why() string {
	var parts []string
	if p.Beside {
		parts = append(parts, "pending beside")
	}
	if p.Message != "" {
		parts = append(parts, p.Message)
	}
	if p.Proposed != "" {
		parts = append(parts, "would fit on "+p.Proposed)
	}
	if len(p.Evicts) > 0 {
		parts = append(parts, "evicts "+strings.Join(p.Evicts, ", "))
	}
	return strings.Join(parts, "; ")
}
