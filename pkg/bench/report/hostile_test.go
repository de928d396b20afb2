// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// hostile are texts that names, reasons and notes of a cluster could be.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onload='alert(1)`,
	`</title></style></desc></svg><script>alert(1)</script>`,
	`javascript:alert(1) {{.}} {{template "table" .}} ${x} -->`,
	"a | b \\| c \\\\| `d` ``` e\n| f | *g* _h_ [i](j) ~~k~~ &lt;",
	"\x1b[2J\x1b]0;title\x07 \u202egnirts\u202c \u200b \x00 \x9b31m \xff\xfe",
	strings.Repeat("very-long-", 40),
}

// poisoned is the fixture with another text in every field that is free text; each
// text ends in a number of its own, so that names stay different.
func poisoned(t *testing.T, text string) *Report {
	t.Helper()
	r := testReport(t)
	number := 0
	next := func() string { number++; return fmt.Sprintf("%s %d", text, number) }
	var walk func(value reflect.Value, field string)
	walk = func(value reflect.Value, field string) {
		switch value.Kind() {
		case reflect.String:
			// Those that Validate holds to a form, and the name that Control refers to.
			if field != "Date" && field != "Phase" && field != "Control" && value.String() != "" {
				value.SetString(next())
			}
		case reflect.Struct:
			for i := range value.NumField() {
				walk(value.Field(i), value.Type().Field(i).Name)
			}
		case reflect.Slice:
			for i := range value.Len() {
				walk(value.Index(i), field)
			}
		case reflect.Map:
			if field != "Reasons" || value.Len() == 0 {
				return
			}
			counts := map[string]int{}
			for _, key := range value.MapKeys() {
				counts[fmt.Sprintf("%s %s", text, key)] = int(value.MapIndex(key).Int())
			}
			value.Set(reflect.ValueOf(counts))
		default: // numbers stay
		}
	}
	walk(reflect.ValueOf(r).Elem(), "")
	r.Schedulers[2].Control = r.Schedulers[3].Name
	r.Summarise()
	return r
}

// written returns what a writer makes of a report.
func written(t *testing.T, r *Report, write func(io.Writer, *Report) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestHostileText shows that no text changes the structure of any form.
func TestHostileText(t *testing.T) {
	overview := func(w io.Writer, r *Report) error { return WriteMarkdownOverview(w, r) }
	forms := []struct {
		name  string
		write func(io.Writer, *Report) error
		// structure is what no text may change.
		structure func(*testing.T, string) []string
	}{
		{"page", WriteHTML, func(t *testing.T, page string) []string { return skeleton(parse(t, []byte(page))) }},
		{"table", WriteTable, func(_ *testing.T, table string) []string { return make([]string, strings.Count(table, "\n")) }},
		{"Markdown", WriteMarkdown, markdownSkeleton},
		{"overview", overview, markdownSkeleton},
	}
	harmless := poisoned(t, "text")
	for _, form := range forms {
		want := form.structure(t, written(t, harmless, form.write))
		for i, text := range hostile {
			t.Run(form.name+"/"+strconv.Itoa(i), func(t *testing.T) {
				content := written(t, poisoned(t, text), form.write)
				if got := form.structure(t, content); !slices.Equal(want, got) {
					t.Errorf("structure (-harmless,+hostile):\n%s", cmp.Diff(want, got))
				}
				noControls(t, content)
			})
		}
	}
	for i, text := range hostile {
		t.Run("JSON/"+strconv.Itoa(i), func(t *testing.T) {
			content := written(t, poisoned(t, text), WriteJSON)
			noControls(t, content, '\u202e', '\u202c', '\u200b', '\u009b')
			if _, err := ReadJSON(strings.NewReader(content)); err != nil {
				t.Errorf("reading it again: %v", err)
			}
		})
	}
}

// noControls looks for what a terminal acts on, or a reader does not see.
func noControls(t *testing.T, text string, allowed ...rune) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) && !slices.Contains(allowed, r) {
			t.Errorf("%q is in the text", r)
			return
		}
	}
}

// escapedSign is a sign that Markdown takes as text.
var escapedSign = regexp.MustCompile("\\\\[\\\\`*_\\[\\]<>|~&$@]")

// markdownSkeleton keeps, of each line outside the command, the signs that mean
// something to Markdown.
func markdownSkeleton(_ *testing.T, text string) []string {
	var lines []string
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = strings.TrimSuffix(line, "sh")
			line = "fence"
		case fence != "" && line == fence:
			fence, line = "", "fence"
		case fence != "":
			line = "command"
		default:
			line = strings.Map(func(r rune) rune {
				if strings.ContainsRune("\\`*_[]<>|~&$@", r) {
					return r
				}
				return -1
			}, escapedSign.ReplaceAllString(line, ""))
		}
		lines = append(lines, line)
	}
	return lines
}
