// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// element is a start tag, or an end tag with a slash in front.
type element struct {
	name       string
	attributes map[string]string
	text       string
}

// parse reads a page as a browser that is strict about nesting would, and returns
// its tags, each with the text behind it.
func parse(t *testing.T, page []byte) []element {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var elements []element
	var open []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("reading the page: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: map[string]string{}}
			for _, attribute := range token.Attr {
				e.attributes[attribute.Name.Local] = attribute.Value
			}
			elements, open = append(elements, e), append(open, e.name)
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != token.Name.Local {
				t.Fatalf("</%s> closes %v", token.Name.Local, open)
			}
			elements, open = append(elements, element{name: "/" + token.Name.Local}), open[:len(open)-1]
		case xml.CharData:
			if len(elements) > 0 {
				elements[len(elements)-1].text += string(token)
			}
		}
	}
	if len(open) > 0 {
		t.Fatalf("never closed: %v", open)
	}
	return elements
}

// skeleton is a page without its texts and values.
func skeleton(elements []element) []string {
	var tags []string
	for _, e := range elements {
		var names []string
		for name := range e.attributes {
			names = append(names, name)
		}
		slices.Sort(names)
		tags = append(tags, fmt.Sprint(e.name, names))
	}
	return tags
}

// pageOf writes and reads the page of a report.
func pageOf(t *testing.T, r *Report) []element {
	t.Helper()
	var page bytes.Buffer
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	return parse(t, page.Bytes())
}

// count counts the tags of a name, with a class if that is not empty.
func count(elements []element, name, class string) int {
	n := 0
	for _, e := range elements {
		if e.name == name && (class == "" || slices.Contains(strings.Fields(e.attributes["class"]), class)) {
			n++
		}
	}
	return n
}

// TestPageStandsAlone looks for whatever would make the page load something, run
// something, or hide something from those who cannot see it.
func TestPageStandsAlone(t *testing.T) {
	r := testReport(t)
	r.Summarise()
	elements := pageOf(t, r)
	ids := map[string]string{}
	for _, e := range elements {
		if id, ok := e.attributes["id"]; ok {
			if _, twice := ids[id]; twice {
				t.Errorf("identifier %s is there twice", id)
			}
			ids[id] = e.text
		}
	}
	for _, e := range elements {
		switch e.name {
		case "script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use":
			t.Errorf("the page has <%s>", e.name)
		case "style":
			if strings.Contains(e.text, "url(") || strings.Contains(e.text, "@import") {
				t.Error("the style loads something")
			}
		case "th":
			if e.attributes["scope"] == "" {
				t.Errorf("a head of a table has no scope: %q", e.text)
			}
		case "svg":
			if e.attributes["aria-hidden"] == "true" {
				continue
			}
			labels := strings.Fields(e.attributes["aria-labeledby"])
			if e.attributes["role"] != "img" || len(labels) != 2 || ids[labels[0]] == "" || ids[labels[1]] == "" {
				t.Errorf("a drawing without a title and a description: %v", e.attributes)
			}
		}
		for name, value := range e.attributes {
			if strings.HasPrefix(name, "on") || name == "src" || name == "href" || name == "style" {
				t.Errorf("<%s> has the attribute %s=%q", e.name, name, value)
			}
			if strings.Contains(value, "NaN") || strings.Contains(value, "Inf") || strings.Contains(value, "ZgotmplZ") {
				t.Errorf("<%s> has %s=%q", e.name, name, value)
			}
		}
	}
}

func TestPageWithLittle(t *testing.T) {
	alone := testReport(t)
	alone.Schedulers = alone.Schedulers[:1]
	alone.Schedulers[0].Rounds = alone.Schedulers[0].Rounds[:1]
	alone.Summarise()
	bare := testReport(t) // rounds that nothing could be seen of
	for i := range bare.Schedulers {
		for k := range bare.Schedulers[i].Rounds {
			round := &bare.Schedulers[i].Rounds[k]
			round.Metrics, round.BoundPerSecond, round.LatencyMillis, round.Reasons = nil, nil, nil, nil
		}
	}
	bare.Summarise()
	still := testReport(t) // everything is 0
	for i := range still.Schedulers {
		for k := range still.Schedulers[i].Rounds {
			round := &still.Schedulers[i].Rounds[k]
			round.BoundPerSecond, round.LatencyMillis = []int{0}, make([]float64, latencyPoints)
			for key := range round.Metrics {
				round.Metrics[key] = 0
			}
		}
	}
	still.Summarise()
	tests := []struct {
		name                    string
		report                  *Report
		figures, tables, median int
		says                    string
	}{
		{name: "no rounds", report: emptyReport(), says: "No round was run."},
		{name: "no round counts", report: invalidReport(t), figures: 3, tables: 5, median: 1, says: "round 1, steady: the time limit of 2m0s ended it"},
		{name: "one scheduler, one round", report: alone, figures: 10, tables: 4, median: 3, says: "default-scheduler"},
		{name: "nothing seen", report: bare, tables: 3, says: "rounds that count"},
		{name: "nothing bound", report: still, figures: 8, tables: 3, median: 0, says: "pods unplaced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			elements := pageOf(t, tt.report)
			if got := count(elements, "figure", ""); got != tt.figures {
				t.Errorf("%d figures, want %d", got, tt.figures)
			}
			if got := count(elements, "table", ""); got != tt.tables {
				t.Errorf("%d tables, want %d", got, tt.tables)
			}
			if got := count(elements, "path", "median"); got != tt.median {
				t.Errorf("%d medians, want %d", got, tt.median)
			}
			if !slices.ContainsFunc(elements, func(e element) bool { return strings.Contains(e.text, tt.says) }) {
				t.Errorf("the page does not say %q", tt.says)
			}
		})
	}
}
