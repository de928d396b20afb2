// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// TestJSONHasNoNull keeps readers from meeting a list or a map that is null.
func TestJSONHasNoNull(t *testing.T) {
	for name, r := range map[string]*Report{
		"no schedulers": {FormatVersion: FormatVersion, Environment: Environment{Date: "2026-11-21T20:00:00Z"}},
		"an empty round": {
			FormatVersion: FormatVersion, Environment: Environment{Date: "2026-11-21T20:00:00Z"},
			Schedulers: []Scheduler{{Name: "a"}, {Name: "b", Rounds: []Round{{Number: 1, Phase: PhaseSteady}}}},
		},
	} {
		var out bytes.Buffer
		if err := WriteJSON(&out, r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(out.String(), "null") {
			t.Errorf("%s: null in\n%s", name, out.String())
		}
		if _, err := ReadJSON(&out); err != nil {
			t.Errorf("%s: reading it again: %v", name, err)
		}
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Report)
		want   []string
	}{
		{name: "valid", change: func(*Report) {}},
		{name: "NaN", change: func(r *Report) { r.Schedulers[1].Rounds[2].Metrics[Throughput] = math.NaN() }, want: []string{"unsupported value: NaN"}},
		{name: "infinity", change: func(r *Report) { r.Schedulers[0].Rounds[0].LatencyMillis[100] = math.Inf(1) }, want: []string{"unsupported value: +Inf"}},
		{name: "unknown metric", change: func(r *Report) { r.Schedulers[0].Rounds[0].Metrics["speed"] = 1 }, want: []string{`schedulers[0].rounds[0].metrics[speed]: Unsupported value: "speed": supported values: `}},
		{name: "unknown phase", change: func(r *Report) { r.Schedulers[0].Rounds[0].Phase = "Fast" }, want: []string{`schedulers[0].rounds[0].phase: Unsupported value: "Fast": supported values: "AsPlanned", "Hostile", "Steady"`}},
		{name: "too few latencies", change: func(r *Report) { r.Schedulers[0].Rounds[0].LatencyMillis = []float64{1} }, want: []string{"rounds[0].latencyMillis: Invalid value: 1: must be 101 numbers, or none"}},
		{name: "the same name twice", change: func(r *Report) { r.Schedulers[1].Name = "default-scheduler" }, want: []string{`schedulers[1].name: Duplicate value: "default-scheduler"`}},
		{name: "no date, no version, no name", change: func(r *Report) { r.Environment.Date, r.FormatVersion, r.Schedulers[3].Name = "", 0, "" }, want: []string{"formatVersion: ", "environment.date: ", "schedulers[3].name: Required value"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testReport(t)
			r.Summarise()
			tt.change(r)
			var out bytes.Buffer
			err := WriteJSON(&out, r)
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			if out.Len() > 0 {
				t.Errorf("%d bytes were written", out.Len())
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestReadJSONIsStrict(t *testing.T) {
	const head = `{"formatVersion": 2, "environment": {"version": "", "date": "2026-11-21T20:00:00Z", "command": "", "machine": {"os": "", "cores": 2}, "cluster": "local", "kubernetes": "", "clientQPS": 1}, `
	tests := []struct{ name, json, want string }{
		{name: "no JSON", json: "{", want: "not a report.json: "},
		{name: "something behind it", json: "{} {}", want: "not a report.json: "},
		{name: "another version", json: `{"formatVersion": 1, "speed": 1}`, want: "formatVersion: Invalid value: 1: only version 2 is known here: read it with the kubectl-berth that wrote it"},
		{name: "unknown key", json: head + `"speed": 1}`, want: `unknown field "speed"`},
		{name: "unknown key below", json: head + `"schedulers": [{"name": "a", "rounds": [{"number": 1, "phase": "Steady", "speed": 3}]}]}`, want: `unknown field "schedulers[0].rounds[0].speed"`},
		{name: "other letters", json: head + `"Schedulers": []}`, want: `unknown field "Schedulers"`},
		{name: "a key twice", json: head + `"schedulers": [], "schedulers": []}`, want: `duplicate field "schedulers"`},
		{name: "a wrong type", json: head + `"schedulers": [{"name": 3}]}`, want: "not a report.json: "},
		{name: "a wrong value", json: head + `"schedulers": [{"name": "a", "rounds": [{"number": 0, "phase": "Steady"}]}]}`, want: "schedulers[0].rounds[0].number: Invalid value: 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ReadJSON(strings.NewReader(tt.json)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
