// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// headings returns the headings of a page's sections, in their order.
func headings(elements []element) []string {
	var found []string
	for _, e := range elements {
		if e.name == "h2" {
			found = append(found, e.text)
		}
	}
	return found
}

// TestPageSaysWhyBeforeItDraws: what somebody can act on comes before the charts.
func TestPageSaysWhyBeforeItDraws(t *testing.T) {
	r := testReport(t)
	r.Summarise()
	order := headings(pageOf(t, r))
	why, charts := slices.Index(order, "Why pods were not placed"), slices.Index(order, "Pods bound over time")
	if why < 0 || charts < 0 || why > charts {
		t.Errorf("the sections are %q, want to be told why pods were not placed before the charts", order)
	}
}

// TestPageHasAHeadline: the first sentence below the title says what came out.
func TestPageHasAHeadline(t *testing.T) {
	r := testReport(t)
	r.Summarise()
	elements := pageOf(t, r)
	if got := count(elements, "p", "headline"); got != 2 {
		t.Errorf("%d sentences, want one for each scheduler that competes with the first", got)
	}
	for _, e := range elements {
		if e.name == "h2" || e.attributes["class"] == "headline" && strings.HasPrefix(e.text, "berth-scheduler binds 0.98 ") {
			if e.name == "h2" {
				t.Error("the first section comes before the result")
			}
			break
		}
	}
}

// TestShortRoundsHaveNoCurve: a curve of one step is a bare rectangle.
func TestShortRoundsHaveNoCurve(t *testing.T) {
	for seconds, want := range map[int]bool{1: false, 3: false, 4: true} {
		r := testReport(t)
		for i := range r.Schedulers {
			for k := range r.Schedulers[i].Rounds {
				round := &r.Schedulers[i].Rounds[k]
				round.BoundPerSecond = slices.Repeat([]int{20}, seconds)
			}
		}
		r.Summarise()
		if got := slices.Contains(headings(pageOf(t, r)), "Pods bound over time"); got != want {
			t.Errorf("rounds of %d s: drawn %t, want %t", seconds, got, want)
		}
	}
}

// TestNothingIsBetterThanNothing: where a scheduler does not have a metric, nobody is
// called better or worse by it.
func TestNothingIsBetterThanNothing(t *testing.T) {
	r := testReport(t)
	for k := range r.Schedulers[0].Rounds {
		delete(r.Schedulers[0].Rounds[k].Metrics, CallsWithinNode)
		delete(r.Schedulers[0].Rounds[k].Metrics, GPUFragmented)
	}
	r.Summarise()
	for _, chart := range r.qualityCharts(PhaseAsPlanned) {
		want := map[string]string{"calls within zone, %": "more is better", "pods unplaced": "less is better"}
		better, checked := want[chart.Title]
		if chart.Title == "calls within node, %" || strings.HasPrefix(chart.Title, "GPU fragmented, %") {
			better, checked = "", true
		}
		if checked && chart.Better != better {
			t.Errorf("%s: %q, want %q", chart.Title, chart.Better, better)
		}
	}
}

// brokenWords is a script that says which words of table heads stand on two lines.
const brokenWords = `<script>
const broken = [];
for (const head of document.querySelectorAll("th")) {
  const walk = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    for (const word of text.data.matchAll(/[^\s-]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set(Array.from(range.getClientRects(), r => Math.round(r.top))).size > 1) broken.push(word[0]);
    }
  }
}
const root = document.documentElement;
parent.postMessage("BROKEN[" + broken.join(" ") + "]OVER[" + (root.scrollWidth - root.clientWidth) + "]", "*");
</script>`

// TestPageBreaksNoWords lets a browser lay the page out on narrow and wide screens.
func TestPageBreaksNoWords(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium in PATH")
	}
	r := testReport(t)
	r.Summarise()
	var page bytes.Buffer
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	// The page's policy allows no scripts; this one is the test's.
	scripted := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page.String(), "")
	scripted = strings.Replace(scripted, "</body>", brokenWords+"</body>", 1)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.html"), []byte(scripted), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{480, 520, 1300} {
		// In a frame: a window of a browser is not as narrow as a phone.
		frame := filepath.Join(dir, "frame.html")
		if err := os.WriteFile(frame, fmt.Appendf(nil, `<script>onmessage = e => document.title = e.data</script><iframe src="page.html" width="%d" height="2000"></iframe>`, width), 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), //nolint:gosec // found in PATH
			"--window-size=1400,2100", "--virtual-time-budget=2000", "--dump-dom", "file://"+frame)
		dom, err := command.Output()
		if err != nil {
			t.Fatalf("running %s: %v", browser, err)
		}
		said := regexp.MustCompile(`BROKEN\[(.*?)\]OVER\[(-?\d+)\]`).FindSubmatch(dom)
		if said == nil {
			t.Fatalf("%d px: the script did not run", width)
		}
		if len(said[1]) > 0 {
			t.Errorf("%d px: these words in heads of tables stand on two lines: %s", width, said[1])
		}
		if string(said[2]) != "0" {
			t.Errorf("%d px: the page is %s px wider than its window", width, said[2])
		}
	}
}
