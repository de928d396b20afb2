// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

// What all forms of a report say alike. Every text that came from elsewhere goes
// through output.Line here; each form escapes it for its own language.

// absent stands for a metric that was not seen or means nothing.
const absent = "-"

// fact is a line of what a report was measured with.
type fact struct{ Key, Value string }

// facts say what was measured, where, when and how.
func (r *Report) facts() []fact {
	e, w := &r.Environment, &r.Workload
	workload := fmt.Sprintf("%s: %d pods on %d nodes", w.Name, w.Pods, w.Nodes)
	if w.Existing > 0 {
		workload += fmt.Sprintf(" that hold %d already", w.Existing)
	}
	if w.Description != "" {
		workload += "; " + w.Description
	}
	facts := []fact{
		{"Workload", workload},
		{"File", fmt.Sprintf("%s, SHA-256 %s", w.Path, cmp.Or(w.SHA256, "unknown"))},
		{"Cluster", r.cluster()},
		{"Machine", r.machine() + r.load()},
		{"Berth", r.berth()},
		{"Date", e.Date},
		{"Command", e.Command},
	}
	for i := range r.Schedulers {
		facts = append(facts, fact{r.Schedulers[i].Name, r.what(&r.Schedulers[i])})
	}
	for i := range facts {
		facts[i] = fact{output.Line(facts[i].Key), output.Line(facts[i].Value)}
	}
	return facts
}

func (r *Report) cluster() string {
	e := &r.Environment
	version := cmp.Or(e.Kubernetes, "of unknown version")
	qps := strconv.FormatFloat(e.ClientQPS, 'f', -1, 64)
	if r.isLocal() {
		return fmt.Sprintf("a local control plane on this machine, Kubernetes %s, every client at %s requests/s", version, qps)
	}
	return fmt.Sprintf("%s, Kubernetes %s, the bench's client at %s requests/s", e.Cluster, version, qps)
}

func (r *Report) machine() string {
	m := &r.Environment.Machine
	parts := []string{}
	if m.CPU != "" {
		parts = append(parts, m.CPU)
	}
	parts = append(parts, output.Count(m.Cores, "core"))
	if m.MemoryMiB > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB", float64(m.MemoryMiB)/1024))
	}
	parts = append(parts, m.OS)
	return strings.Join(parts, ", ")
}

// load is the machine's load before the first round; empty if the system does not
// tell.
func (r *Report) load() string {
	if r.Environment.Machine.LoadBefore == nil {
		return ""
	}
	return fmt.Sprintf(", load %.2f before", *r.Environment.Machine.LoadBefore)
}

func (r *Report) berth() string {
	if r.Environment.Commit == "" {
		return r.Environment.Version
	}
	return r.Environment.Version + ", commit " + r.Environment.Commit
}

// isLocal reports whether the bench had a control plane of its own.
func (r *Report) isLocal() bool { return r.Environment.Cluster == "local" }

// what says what ran under a scheduler's name.
func (r *Report) what(s *Scheduler) string {
	var parts []string
	if ran := strings.TrimSpace(s.Binary + " " + s.Version); ran != "" {
		parts = append(parts, ran)
	}
	switch {
	case s.Profile != "" || s.ProfileSHA256 != "":
		parts = append(parts, fmt.Sprintf("profile %s, SHA-256 %s", cmp.Or(s.Profile, "of unknown path"), cmp.Or(s.ProfileSHA256, "unknown")))
	case s.Binary != "":
		parts = append(parts, "no profile file")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case r.isLocal():
		return "part of the bench" // what runs as a process has a binary
	default:
		return "as it runs there"
	}
}

// phases returns the phases that there are rounds of.
func (r *Report) phases() []Phase {
	return slices.DeleteFunc(allPhases(), func(phase Phase) bool {
		return !slices.ContainsFunc(r.Schedulers, func(s Scheduler) bool { return s.ran(phase) })
	})
}

// allPhases are the phases in the order in which they are shown.
func allPhases() []Phase { return []Phase{PhaseAsPlanned, PhaseHostile, PhaseSteady} }

// phaseTitles names the phases for a reader, and phaseNames in a line about a round.
var (
	phaseTitles = map[Phase]string{
		PhaseAsPlanned: "As planned",
		PhaseHostile:   "Beside a hostile namespace; the others' pods",
		PhaseSteady:    "Steady, at 80 % of the scheduler's own throughput",
	}
	phaseNames = map[Phase]string{PhaseAsPlanned: "as planned", PhaseHostile: "hostile", PhaseSteady: "steady"}
)

// RoundsIn returns the rounds of a phase, in their order.
func (s *Scheduler) RoundsIn(phase Phase) iter.Seq[*Round] {
	return func(yield func(*Round) bool) {
		for i := range s.Rounds {
			if round := &s.Rounds[i]; round.Phase == phase && !yield(round) {
				return
			}
		}
	}
}

// ran reports whether there is a round of the phase.
func (s *Scheduler) ran(phase Phase) bool {
	for range s.RoundsIn(phase) {
		return true
	}
	return false
}

// cell is a metric of a scheduler, as text.
type cell struct {
	Median string
	// Range is "least–most", unless they are the same, and of how many rounds, if those
	// are fewer than count.
	Range string
	// Best says that the worst round is better than the best one of every other
	// scheduler, under the same load.
	Best bool
}

// String has the range in parentheses.
func (c cell) String() string {
	if c.Range == "" {
		return c.Median
	}
	return c.Median + " (" + c.Range + ")"
}

// row is a metric of all schedulers.
type row struct {
	Title string
	Cells []cell
}

// names returns the schedulers' names as text.
func (r *Report) names() []string {
	names := make([]string, len(r.Schedulers))
	for i := range r.Schedulers {
		names[i] = output.Line(r.Schedulers[i].Name)
	}
	return names
}

// rows returns how many rounds count, and every metric that a scheduler has in this
// phase.
func (r *Report) rows(phase Phase) []row {
	counted := row{Title: "rounds that count"}
	target := row{Title: "pods/s that arrive"}
	for i := range r.Schedulers {
		all, rates := 0, []float64{}
		for round := range r.Schedulers[i].RoundsIn(phase) {
			all++
			if len(round.Invalid) == 0 {
				rates = append(rates, round.TargetRate)
			}
		}
		counted.Cells = append(counted.Cells, cell{Median: fmt.Sprintf("%d of %d", r.Schedulers[i].counting(phase), all)})
		rate := absent
		if len(rates) > 0 {
			rate = fmt.Sprintf("%.0f", Median(rates))
		}
		target.Cells = append(target.Cells, cell{Median: rate})
	}
	rows := []row{counted}
	if phase == PhaseSteady {
		rows = append(rows, target)
	}
	for _, metric := range Metrics() {
		if cells := r.cells(phase, metric); cells != nil {
			rows = append(rows, row{metric.Title, cells})
		}
	}
	return rows
}

// counting is how many rounds of a phase count.
func (s *Scheduler) counting(phase Phase) int {
	count := 0
	for round := range s.RoundsIn(phase) {
		if len(round.Invalid) == 0 {
			count++
		}
	}
	return count
}

// cells returns a metric of each scheduler, or nothing if none has it.
func (r *Report) cells(phase Phase, metric Metric) []cell {
	var cells []cell
	some := false
	for i := range r.Schedulers {
		spread, ok := r.Schedulers[i].Summary[phase][metric.Key]
		if !ok {
			cells = append(cells, cell{Median: absent})
			continue
		}
		some = true
		c := spread.cell(metric)
		if spread.Rounds < r.Schedulers[i].counting(phase) {
			// The count in the first row is not that of this number.
			c.Range = strings.TrimPrefix(c.Range+", of "+output.Count(spread.Rounds, "round"), ", ")
		}
		c.Best = r.isBest(i, phase, metric)
		cells = append(cells, c)
	}
	if !some {
		return nil
	}
	return cells
}

// cell writes the spread of a metric.
func (s Spread) cell(metric Metric) cell {
	c := cell{Median: metric.text(s.Median)}
	if low, high := metric.text(s.Min), metric.text(s.Max); low != high {
		c.Range = low + "–" + high
	}
	return c
}

// minRounds is how many rounds a scheduler needs to be called better than another.
const minRounds = 3

// isBest compares the worst round of a scheduler with the best of all others. What
// is a control competes with nobody, and in PhaseSteady nobody does: each scheduler
// has another load there, the slower one the lighter.
func (r *Report) isBest(index int, phase Phase, metric Metric) bool {
	if phase != PhaseAsPlanned || metric.Better == 0 || r.isControl(index) {
		return false
	}
	sign := float64(metric.Better)
	extremes := func(s Spread) (worst, best float64) { return min(sign*s.Min, sign*s.Max), max(sign*s.Min, sign*s.Max) }
	own := r.Schedulers[index].Summary[phase][metric.Key]
	worst, _ := extremes(own)
	rivals := 0
	for i := range r.Schedulers {
		other, ok := r.Schedulers[i].Summary[phase][metric.Key]
		if i == index || !ok || r.isControl(i) {
			continue
		}
		rivals++
		if _, best := extremes(other); worst <= best || other.Rounds < minRounds {
			return false
		}
	}
	return rivals > 0 && own.Rounds >= minRounds
}

// isControl reports whether a scheduler is there as a control: another one's, or for
// whoever reads.
func (r *Report) isControl(index int) bool {
	return r.Schedulers[index].ControlOnly || slices.ContainsFunc(r.Schedulers, func(s Scheduler) bool { return s.Control == r.Schedulers[index].Name })
}

// ratioWords say what the ratios of every form of a report are.
const ratioWords = "geometric mean of the pairs of rounds, with its 95 % confidence interval where there are three pairs or more"

// text writes a ratio as ratioWords say.
func (r Ratio) text() string {
	if r.Pairs < minPairs {
		return fmt.Sprintf("%.2f (%s)", r.Mean, output.Count(r.Pairs, "pair"))
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f, %s)", r.Mean, r.Low, r.High, output.Count(r.Pairs, "pair"))
}

// hostileRatios returns a row for each metric that was compared with and without the
// hostile namespace.
func (r *Report) hostileRatios() []row {
	var rows []row
	for _, metric := range Metrics() {
		line, some := row{Title: metric.Title, Cells: r.blanks()}, false
		for i := range r.Schedulers {
			if ratio, ok := r.Schedulers[i].HostileToQuiet[metric.Key]; ok {
				line.Cells[i].Median, some = ratio.text(), true
			}
		}
		if some {
			rows = append(rows, line)
		}
	}
	return rows
}

// ratios returns a row for each scheduler that others are compared with.
func (r *Report) ratios() []row {
	var rows []row
	for i := range r.Schedulers {
		base := r.Schedulers[i].Name
		ratios := row{Title: output.Line(base)}
		some := false
		for k := range r.Schedulers {
			ratio, ok := r.Schedulers[k].RatioTo[base]
			switch {
			case ok:
				some = true
				ratios.Cells = append(ratios.Cells, cell{Median: ratio.text()})
			case k == i:
				ratios.Cells = append(ratios.Cells, cell{Median: "1"})
			default:
				ratios.Cells = append(ratios.Cells, cell{Median: absent})
			}
		}
		if some {
			rows = append(rows, ratios)
		}
	}
	return rows
}

// remark is a sentence about a scheduler.
type remark struct{ Scheduler, Text string }

// remarks returns the schedulers' notes. What holds for several is said once.
func (r *Report) remarks() []remark {
	var notes []string
	about := map[string][]string{}
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		for _, note := range s.Notes {
			note = output.Line(note)
			if about[note] == nil {
				notes = append(notes, note)
			}
			about[note] = append(about[note], output.Line(s.Name))
		}
	}
	remarks := make([]remark, len(notes))
	for i, note := range notes {
		remarks[i] = remark{strings.Join(about[note], ", "), note}
	}
	return remarks
}

// excluded returns the rounds that do not count, and the metrics of others that do
// not, with the reasons.
func (r *Report) excluded() []remark {
	var remarks []remark
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		for k := range s.Rounds {
			round := &s.Rounds[k]
			why := round.excluded()
			if why == "" {
				continue
			}
			remarks = append(remarks, remark{output.Line(s.Name), fmt.Sprintf("round %d, %s: %s", round.Number, phaseNames[round.Phase], why)})
		}
	}
	return remarks
}

// excluded says in one line why the round does not count, or which of its metrics do
// not; empty if all do.
func (r *Round) excluded() string {
	if len(r.Invalid) > 0 {
		return output.Line(strings.Join(r.Invalid, "; "))
	}
	byReason := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(r.Inexact)) {
		reason := output.Line(r.Inexact[key])
		byReason[reason] = append(byReason[reason], output.Line(key))
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		parts = append(parts, "without "+strings.Join(byReason[reason], ", ")+": "+reason)
	}
	return strings.Join(parts, "; ")
}

// shownReasons is how many reasons of a scheduler are shown: those of a real cluster
// have counts of nodes in them, and nearly every pod can have one of its own.
// report.json has those of each round.
const shownReasons = 8

// unplaced returns why pods were not placed in the rounds that count: each reason
// with the largest number of pods that had it in a round, the most frequent first.
func (r *Report) unplaced() []remark {
	var remarks []remark
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		most := map[string]int{}
		for k := range s.Rounds {
			if round := &s.Rounds[k]; len(round.Invalid) == 0 {
				for reason, count := range round.Reasons {
					most[reason] = max(most[reason], count)
				}
			}
		}
		reasons := slices.SortedFunc(maps.Keys(most), func(a, b string) int {
			return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b))
		})
		for k, reason := range reasons {
			if k == shownReasons {
				remarks = append(remarks, remark{output.Line(s.Name), output.Count(len(reasons)-k, "more reason")})
				break
			}
			remarks = append(remarks, remark{output.Line(s.Name), fmt.Sprintf("up to %s: %s", output.Count(most[reason], "pod"), output.Line(reason))})
		}
	}
	return remarks
}
