// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"
)

// TestRatioIsReciprocal: however many pairs there are, the ratio of a to b and that of b
// to a are one statement.
func TestRatioIsReciprocal(t *testing.T) {
	throughputs := [][2]float64{{1.66, 1}, {0.79, 1}, {50, 80}, {3, 2}}
	for pairs := 1; pairs <= len(throughputs); pairs++ {
		var a, b []float64
		product := 1.0
		for _, pair := range throughputs[:pairs] {
			a, b = append(a, pair[0]), append(b, pair[1])
			product *= pair[0] / pair[1]
		}
		r := &Report{Schedulers: []Scheduler{{Name: "a", Rounds: planned(a...)}, {Name: "b", Rounds: planned(b...)}}}
		r.Summarise()
		forth, back := r.Schedulers[0].RatioTo["b"], r.Schedulers[1].RatioTo["a"]
		if want := math.Pow(product, 1/float64(pairs)); math.Abs(forth.Mean-want) > 1e-9 {
			t.Errorf("%d pairs: the mean is %v, want the geometric one, %v", pairs, forth.Mean, want)
		}
		want := Ratio{Mean: 1 / forth.Mean, Pairs: pairs}
		if forth.Low > 0 {
			want.Low, want.High = 1/forth.High, 1/forth.Low
		}
		if diff := cmp.Diff(want, back, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%d pairs: the ratio the other way round is not the reciprocal (-want,+got):\n%s", pairs, diff)
		}
	}
}

// TestCountBesideItsNumber: a metric that fewer rounds have than count says of how many
// it is.
func TestCountBesideItsNumber(t *testing.T) {
	rounds := planned(100, 200)
	rounds[0].Metrics[LatencyP50], rounds[1].Metrics[LatencyP50] = 934, 2198
	rounds[1].Inexact = map[string]string{LatencyP50: "the watch was 2s behind"}
	r := &Report{Schedulers: []Scheduler{{Name: "a", Rounds: rounds}}}
	r.Summarise()
	got := map[string]string{}
	for _, row := range r.rows(PhaseAsPlanned) {
		got[row.Title] = row.Cells[0].String()
	}
	want := map[string]string{"rounds that count": "2 of 2", "pods/s": "150 (100–200)", "latency p50, ms": "934.0 (of 1 round)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want,+got):\n%s", diff)
	}
}

// TestBusyMachineIsSaidFirst: before any ratio, in every form.
func TestBusyMachineIsSaidFirst(t *testing.T) {
	for load, want := range map[float64]bool{0.08: false, 0.5: false, 0.51: true, 15: true} {
		t.Run(fmt.Sprint(load), func(t *testing.T) {
			r := testReport(t)
			r.Environment.Machine.LoadBefore = ptr.To(load)
			r.Summarise()
			for name, write := range map[string]func(io.Writer, *Report) error{"table": WriteTable, "Markdown": WriteMarkdown, "HTML": WriteHTML} {
				var out bytes.Buffer
				if err := write(&out, r); err != nil {
					t.Fatal(err)
				}
				said, ratio := strings.Index(out.String(), "The machine was busy"), strings.Index(out.String(), " pairs")
				if (said >= 0) != want || said > ratio {
					t.Errorf("%s: the machine is called busy at %d, and the first ratio stands at %d", name, said, ratio)
				}
			}
		})
	}
}

// TestFewPairsAreSaidFirst: a ratio of one pair may be chance.
func TestFewPairsAreSaidFirst(t *testing.T) {
	for pairs, want := range map[int]bool{1: true, 2: true, 3: false} {
		r := &Report{Schedulers: []Scheduler{{Name: "a", Rounds: planned(90, 95, 99)[:pairs]}, {Name: "b", Rounds: planned(100, 100, 100)[:pairs]}}}
		r.Summarise()
		if got := strings.Contains(strings.Join(r.warnings(), " "), "may be chance"); got != want {
			t.Errorf("%d pairs: warned %t, want %t: %q", pairs, got, want, r.warnings())
		}
	}
}

// hostileReport has two schedulers with three rounds each without and beside a hostile
// namespace.
func hostileReport() *Report {
	r := emptyReport()
	r.Schedulers = nil
	for _, s := range []struct {
		name       string
		throughput float64
		latency    float64
	}{{"default-scheduler", 0.9, 1.2}, {"berth-scheduler", 0.5, 4}} {
		rounds := planned(100, 200, 400)
		for i := range rounds {
			rounds[i].Metrics[LatencyP99] = float64(10 * (i + 1))
			hostile := Round{Number: rounds[i].Number, Phase: PhaseHostile, Metrics: map[string]float64{
				Throughput: s.throughput * rounds[i].Metrics[Throughput], LatencyP99: s.latency * rounds[i].Metrics[LatencyP99], CPUMillisPerPod: 6, HostileWrites: 20,
			}}
			rounds[i].Metrics[CPUMillisPerPod] = 3
			rounds = append(rounds, hostile)
		}
		r.Schedulers = append(r.Schedulers, Scheduler{Name: s.name, Rounds: rounds})
	}
	return r
}

// TestHostileRatios: each scheduler is compared with itself.
func TestHostileRatios(t *testing.T) {
	r := hostileReport()
	r.Schedulers[1].Rounds[5].Invalid = []string{"it had not settled"}
	r.Summarise()
	want := map[string]Ratio{Throughput: {Mean: 0.5, Pairs: 2}, LatencyP99: {Mean: 4, Pairs: 2}, CPUMillisPerPod: {Mean: 2, Pairs: 2}}
	if diff := cmp.Diff(want, r.Schedulers[1].HostileToQuiet, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("berth-scheduler (-want,+got):\n%s", diff)
	}
	if got := r.Schedulers[1].RatioTo["default-scheduler"]; got.Mean != 1 || got.Pairs != 3 {
		t.Errorf("the ratio of the rounds without it is %+v, want 1 of three pairs", got)
	}
	wantHeadline := []string{
		"berth-scheduler binds 1.00 (1.00–1.00, 3 pairs) × as many pods a second as default-scheduler.",
		"Beside a hostile namespace, others' pods under default-scheduler have p99 from creation to binding 1.20 (1.20–1.20, 3 pairs) × and throughput 0.90 (0.90–0.90, 3 pairs) × what they have without it.",
		"Beside a hostile namespace, others' pods under berth-scheduler have p99 from creation to binding 4.00 (2 pairs) × and throughput 0.50 (2 pairs) × what they have without it.",
	}
	if diff := cmp.Diff(wantHeadline, r.headline()); diff != "" {
		t.Errorf("headline (-want,+got):\n%s", diff)
	}
	var page, table bytes.Buffer
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	if err := WriteTable(&table, r); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{page.String(), table.String()} {
		if !strings.Contains(text, "Beside a hostile namespace, as a ratio to the same without one") || !strings.Contains(text, "hostile writes/s") {
			t.Errorf("the ratios, or the writes, are missing in:\n%s", text)
		}
	}
	for i := range r.Schedulers[1].Rounds {
		if round := &r.Schedulers[1].Rounds[i]; round.Phase == PhaseHostile {
			round.Invalid = []string{"it had not settled"}
		}
	}
	r.Summarise()
	if got := r.headline(); len(got) != 3 || !strings.Contains(got[2], "no round of berth-scheduler counts") {
		t.Errorf("headline %q, want to be told that no hostile round counts", got)
	}
}
