// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

// busyPart is the load of a machine, for each of its cores, from which on what else it
// does is measured too.
const busyPart = 0.25

// BusyWarning says that a machine was busy before the first round; empty if it was not,
// or if the system does not tell.
func (m *Machine) BusyWarning() string {
	if m.LoadBefore == nil || m.Cores < 1 || *m.LoadBefore <= busyPart*float64(m.Cores) {
		return ""
	}
	return fmt.Sprintf("The machine was busy before the first round (load %.2f on %s): its other work affects every number and ratio below. Measure again when it is idle.",
		*m.LoadBefore, output.Count(m.Cores, "core"))
}

// warnings are what a reader must know before any number.
func (r *Report) warnings() []string {
	var warnings []string
	if busy := r.Environment.Machine.BusyWarning(); busy != "" {
		warnings = append(warnings, busy)
	}
	fewest := 0
	for i := range r.Schedulers {
		for _, ratio := range r.Schedulers[i].RatioTo {
			if fewest == 0 || ratio.Pairs < fewest {
				fewest = ratio.Pairs
			}
		}
	}
	if fewest > 0 && fewest < minPairs {
		warnings = append(warnings, fmt.Sprintf("Some ratios are of only %s of rounds and may be chance. An interval needs %d.", output.Count(fewest, "pair"), minPairs))
	}
	return warnings
}

// headline is what the report comes to, in a sentence for each scheduler that can be
// compared: with the first one, and with itself beside a hostile namespace.
func (r *Report) headline() []string {
	var sentences []string
	if len(r.Schedulers) == 0 {
		return nil
	}
	base := r.Schedulers[0].Name
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		ratio, ok := s.RatioTo[base]
		if !ok || r.isControl(i) || r.isControl(0) {
			continue
		}
		sentence := fmt.Sprintf("%s binds %s × as many pods a second as %s", s.Name, ratio.text(), base)
		ours, theirs := s.Summary[PhaseAsPlanned][Unplaced].Median, r.Schedulers[0].Summary[PhaseAsPlanned][Unplaced].Median
		if ours != theirs {
			sentence += fmt.Sprintf(", and leaves %.0f pods without a node where %s leaves %.0f", ours, base, theirs)
		}
		sentences = append(sentences, output.Line(sentence+"."))
	}
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		var parts []string
		for _, compared := range []struct{ key, words string }{{LatencyP99, "p99 from creation to binding"}, {Throughput, "throughput"}} {
			if ratio, ok := s.HostileToQuiet[compared.key]; ok {
				parts = append(parts, compared.words+" "+ratio.text()+" ×")
			}
		}
		if len(parts) > 0 {
			sentence := fmt.Sprintf("Beside a hostile namespace, others' pods under %s have %s what they have without it", s.Name, strings.Join(parts, " and "))
			if quiet, beside := s.Summary[PhaseAsPlanned][Unplaced].Median, s.Summary[PhaseHostile][Unplaced].Median; quiet != beside {
				sentence += fmt.Sprintf("; %.0f of them find no node, and %.0f without it", beside, quiet)
			}
			sentences = append(sentences, output.Line(sentence+"."))
		} else if s.counting(PhaseAsPlanned) > 0 && s.ran(PhaseHostile) {
			sentences = append(sentences, output.Line(fmt.Sprintf("Beside a hostile namespace, no round of %s counts that can be compared with one without it.", s.Name)))
		}
	}
	return sentences
}
