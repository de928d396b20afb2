// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Error is something that does not work, or that lets happen what was meant to be
	// kept from happening.
	Error Severity = "Error"
	// Warning is something that has no effect, or that is probably not what was meant.
	Warning Severity = "Warning"
)

// Finding is one thing that is wrong.
type Finding struct {
	// Severity says how bad it is.
	Severity Severity `json:"severity"`
	// Object is what is wrong: a file, or a kind with namespace and name.
	Object string `json:"object"`
	// Field is the field of it; empty if it is no field's.
	Field string `json:"field,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// WayOut says what to do about it.
	WayOut string `json:"wayOut"`
}

// FormatVersion is that of a [Report] as JSON or YAML. Keys may be added; the version
// changes when one goes or changes its meaning.
const FormatVersion = 1

// Report is what was found.
type Report struct {
	// FormatVersion is [FormatVersion].
	FormatVersion int `json:"formatVersion"`
	// Schedulers are the schedulers that were looked at, each with the schedulerNames that
	// it serves.
	Schedulers []string `json:"schedulers"`
	// Findings are sorted by severity, object and field.
	Findings []Finding `json:"findings"`
	// NotSeen says what could not be looked at, a line each.
	NotSeen []string `json:"notSeen,omitempty"`
}

// AtLeast leaves the findings that are as severe as the given severity or more.
func (r *Report) AtLeast(severity Severity) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return severity == Error && f.Severity != Error })
}

// WriteTable writes the findings for people, a row each, with the way out behind the
// problem.
func (r *Report) WriteTable(w io.Writer) error {
	table := output.NewTable("SEVERITY", "OBJECT", "FIELD", "PROBLEM, AND WHAT TO DO")
	for i := range r.Findings {
		f := &r.Findings[i]
		table.Add(f.Severity, f.Object, f.Field, f.Message+": "+f.WayOut)
	}
	return table.Write(w)
}

// sort brings the findings in order, without repetitions.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	r.Findings = slices.Compact(r.Findings)
}

// ProfileReport is the report of a profile that was loaded, or could not be: err is
// [settings.Load]'s.
func ProfileReport(source string, p *settings.Profile, err error) *Report {
	r := &Report{FormatVersion: FormatVersion, Schedulers: []string{}, Findings: []Finding{}}
	if err != nil {
		r.Findings = append(r.Findings, profileFindings(source, err)...)
	} else {
		r.Schedulers = append(r.Schedulers, served(source, p))
	}
	r.sort()
	return r
}

func served(source string, p *settings.Profile) string {
	return source + ": " + strings.Join(p.Names(), ", ")
}

// profileFindings takes the error of settings.Load apart.
func profileFindings(source string, err error) []Finding {
	problems := []error{err}
	if aggregate, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		problems = utilerrors.Flatten(aggregate).Errors()
	}
	var findings []Finding
	for _, problem := range problems {
		f := Finding{Severity: Error, Object: source}
		text := strings.TrimPrefix(problem.Error(), source+": ")
		if decoding := decodingFindings(source, text); len(decoding) > 0 {
			findings = append(findings, decoding...)
			continue
		}
		if invalid, ok := errors.AsType[*field.Error](problem); ok {
			f.Field, text = invalid.Field, invalid.ErrorBody()
		}
		f.Message, f.WayOut = splitWayOut(text, "correct the field: a scheduler does not start with this file")
		findings = append(findings, f)
	}
	return findings
}

// splitWayOut cuts a text as this project writes it, "PROBLEM: WAY OUT", in two. One
// that ends otherwise keeps all of it, and what is to be done is otherwise.
func splitWayOut(text, otherwise string) (message, wayOut string) {
	i := strings.LastIndex(text, ": ")
	if i < 0 || !startsWithVerb(text[i+2:]) {
		return text, otherwise
	}
	return text[:i], text[i+2:]
}

// startsWithVerb reports whether a text begins as the ways out of this project do.
func startsWithVerb(text string) bool {
	verb, _, _ := strings.Cut(text, " ")
	return slices.Contains([]string{
		"add", "correct", "create", "delete", "disable", "drain", "elect", "enable", "give", "grant", "install", "keep", "label", "let", "list", "move",
		"name", "put", "remove", "rename", "restore", "run", "say", "set", "start", "turn", "use", "write",
	}, verb)
}
