// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo runs the demo as a person does: its binary, with a real control
// plane and three real schedulers.
package demo

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// demoTimeout is how long a demo may take on a busy machine; alone it needs less
// than a quarter of a minute.
const demoTimeout = 5 * time.Minute

// sampleShop has the demo place its own sample.
const sampleShop = "--shop=hack/demo/sample/shop.yaml"

// start starts the demo with a folder of its own for everything temporary, and
// returns that folder.
func start(t *testing.T, args ...string) (demo *framework.Process, temporary string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane: skipped under -short")
	}
	temporary = t.TempDir()
	t.Setenv("TMPDIR", temporary)
	return framework.StartProcess(t, framework.Demo, args...), temporary
}

// row is one line of the demo's table of pods.
type row struct{ pod, scheduler, node, verdict, why string }

// columns separates the table's columns, which are at least three blanks apart.
var columns = regexp.MustCompile(` {3,}`)

// table returns the rows of the table of pods, by pod.
func table(t *testing.T, output string) map[string]row {
	t.Helper()
	rows := map[string]row{}
	for _, cells := range cellsBelow(t, output, "POD ", 5) {
		rows[cells[0]] = row{cells[0], cells[1], cells[2], cells[3], cells[4]}
	}
	return rows
}

// cellsBelow returns the rows of the table whose header begins with a text, each
// with n cells.
func cellsBelow(t *testing.T, output, header string, n int) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(output, "\n"+header)
	if !found {
		t.Fatalf("no table with the header %q in the output:\n%s", header, output)
	}
	var rows [][]string
	for i, line := range strings.Split(rest, "\n") {
		if i == 0 {
			continue // the rest of the header
		}
		if line == "" {
			break
		}
		cells := columns.Split(line, n)
		if len(cells) != n {
			t.Fatalf("a row with %d cells: %q", len(cells), line)
		}
		rows = append(rows, cells)
	}
	return rows
}

// The nodes of hack/demo/nodes.yaml as the table shows them.
var (
	both       = []string{"a2 (selectable, device=gpu)", "b2 (selectable, device=gpu)"}
	gpu        = append([]string{"b3 (device=gpu)", "c2 (device=gpu)"}, both...)
	selectable = append([]string{"a1 (selectable)", "b1 (selectable)", "c1 (selectable)"}, both...)
	untainted  = append([]string{"a3", "a1 (selectable)", "b1 (selectable)", "c1 (selectable)"}, gpu...)
)

// checkPolicy checks the rows of the policy example, whose pods have fixed names.
func checkPolicy(t *testing.T, rows map[string]row) {
	t.Helper()
	tests := []struct {
		pod, scheduler string
		nodes          []string // any of these
	}{
		{pod: "policy/gpu-berth", scheduler: "berth-scheduler", nodes: both},
		{pod: "policy/gpu-stock", scheduler: "default-scheduler", nodes: gpu},
		{pod: "policy/gpu-random", scheduler: "random-scheduler", nodes: gpu},
		{pod: "policy/gpu-in-zone-c-stock", scheduler: "default-scheduler", nodes: []string{"c2 (device=gpu)"}},
	}
	for _, tt := range tests {
		got := rows[tt.pod]
		if got.scheduler != tt.scheduler || got.verdict != "ok" || !slices.Contains(tt.nodes, got.node) {
			t.Errorf("%s: got %+v, want scheduler %s, verdict ok and one of the nodes %q", tt.pod, got, tt.scheduler, tt.nodes)
		}
		node, _, _ := strings.Cut(got.node, " ")
		if why := "Scheduled (" + tt.scheduler + "): Successfully assigned " + tt.pod + " to " + node; !strings.HasPrefix(got.why, why) {
			t.Errorf("%s: got the reason %q, want it to begin with %q", tt.pod, got.why, why)
		}
	}
	got := rows["policy/gpu-in-zone-c"]
	if got.scheduler != "berth-scheduler" || got.node != "(pending)" || got.verdict != "ok" ||
		!strings.HasPrefix(got.why, "FailedScheduling (berth-scheduler): 0/13 nodes are available: ") || !strings.Contains(got.why, `"selectable"`) {
		t.Errorf("policy/gpu-in-zone-c: got %+v, want it pending with an event that names the label", got)
	}
}

// checkRefused checks the row of the pod whose share no device is large enough for. That
// the others hold what they ask for, and no device more than it has, is the verdict's.
func checkRefused(t *testing.T, rows map[string]row) {
	t.Helper()
	refused := rows["gpu/too-large"]
	if refused.scheduler != "berth-scheduler" || refused.node != "(pending)" || refused.verdict != "ok" ||
		!strings.HasPrefix(refused.why, "FailedScheduling (berth-scheduler): 0/13 nodes are available: no node's devices are large enough: the largest berth.dev/gpu-memory that a container can be given here is 15Gi") {
		t.Errorf("gpu/too-large: got %+v, want it pending with an event that says how large a share can be", refused)
	}
}

// checkShop checks the rows of the shop, whose pods have random names: each on a
// node that its scheduler may choose, and so many of each scheduler.
func checkShop(t *testing.T, rows map[string]row, wantPods map[string]int) {
	t.Helper()
	allowed := map[string][]string{
		"default-scheduler": untainted,
		"berth-scheduler":   selectable,
		"random-scheduler":  untainted,
	}
	pods := map[string]int{}
	for name, row := range rows {
		if !strings.HasPrefix(name, "shop/") {
			continue
		}
		pods[row.scheduler]++
		if row.verdict != "ok" || !slices.Contains(allowed[row.scheduler], row.node) {
			t.Errorf("%s: got %+v, want verdict ok and one of the nodes %q", name, row, allowed[row.scheduler])
		}
		if why := "Scheduled (" + row.scheduler + "): Successfully assigned " + name + " to "; !strings.HasPrefix(row.why, why) {
			t.Errorf("%s: got the reason %q, want it to begin with %q", name, row.why, why)
		}
	}
	if diff := cmp.Diff(wantPods, pods); diff != "" {
		t.Errorf("unexpected number of the shop's pods by scheduler (-want,+got):\n%s", diff)
	}
}

// checkCalls checks that the shop's pods are near the Services that they talk to
// where Colocation placed them, and that stock does not do that by itself.
func checkCalls(t *testing.T, output string) {
	t.Helper()
	rows := map[string][]int{}
	for _, cells := range cellsBelow(t, output, "NAMESPACE ", 8) {
		var percents []int
		for _, cell := range cells[2:] {
			percent, err := strconv.Atoi(strings.TrimSuffix(cell, " %"))
			if err != nil {
				t.Fatalf("a share in %q: %v", cells, err)
			}
			percents = append(percents, percent)
		}
		rows[cells[0]+" "+cells[1]] = percents
	}
	stock, near := rows["near-stock default-scheduler"], rows["near berth-scheduler"]
	if len(rows) != 2 || stock == nil || near == nil {
		t.Fatalf("got the rows %v, want one of each scheduler", rows)
	}
	// Of three endpoints, one in each zone, calls go to all or to the nearest.
	const nodeNearest, zoneAll, zoneNearest = 2, 3, 4
	if near[zoneAll] != 33 || near[zoneNearest] != 100 {
		t.Errorf("of Colocation's calls %d %% and %d %% stay within a zone, want 33 and 100", near[zoneAll], near[zoneNearest])
	}
	if near[nodeNearest] <= stock[nodeNearest] {
		t.Errorf("of Colocation's calls %d %% stay within a node, and of stock's %d %%", near[nodeNearest], stock[nodeNearest])
	}
}

// checkGood checks all of a demo in which nothing is wrong.
func checkGood(t *testing.T, output string, wantShopPods map[string]int) {
	t.Helper()
	rows := table(t, output)
	checkPolicy(t, rows)
	checkRefused(t, rows)
	if got := len(cellsBelow(t, output, "NODE     MODEL ", 5)); got != 20 {
		t.Errorf("%d rows in the table of devices, want one for each of 20", got)
	}
	checkShop(t, rows, wantShopPods)
	checkCalls(t, output)
	if !strings.Contains(output, "Verdict: all ") || strings.Contains(output, "VIOLATION") {
		t.Error("the verdict is not a good one")
	}
	if t.Failed() {
		t.Logf("the output:\n%s", output)
	}
}

// With Online Boutique where it is at hand; everything goes on running when the demo
// has ended, can be used, and is stopped by one command.
func TestKeep(t *testing.T) {
	shop, shopPods := sampleShop, map[string]int{"default-scheduler": 4, "berth-scheduler": 4, "random-scheduler": 3}
	if boutique := datasets.Path(datasets.OnlineBoutique); fileExists(boutique) {
		shop, shopPods = "--shop="+boutique, map[string]int{"default-scheduler": 4, "berth-scheduler": 4, "random-scheduler": 4}
	}
	dir := filepath.Join(t.TempDir(), "kept")
	t.Setenv("KEEP", "1")
	demo, temporary := start(t, shop, "--dir="+dir)
	t.Cleanup(func() { // also when the test fails half-way
		if code := framework.StartProcess(t, framework.Demo, "--stop", "--dir="+dir).Wait(t, time.Minute); code != 0 {
			t.Errorf("stopping: got exit code %d, want 0", code)
		}
	})
	if code := demo.Wait(t, demoTimeout); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	checkGood(t, demo.Output(), shopPods)
	framework.CheckGone(t, temporary)

	kubeconfig := filepath.Join(dir, "kubeconfig")
	for _, text := range []string{"export KUBECONFIG=" + kubeconfig, "--stop --dir " + dir} {
		if !strings.Contains(demo.Output(), text) {
			t.Errorf("the output does not say %q:\n%s", text, demo.Output())
		}
	}
	// What the demo proposes: the label lets the pending pod in.
	framework.Kubectl(t, kubeconfig, "label", "node", "c2", "selectable=true")
	framework.Kubectl(t, kubeconfig, "wait", "pod/gpu-in-zone-c", "-n=policy", "--for=condition=PodScheduled", "--timeout=60s")
	if node := framework.Kubectl(t, kubeconfig, "get", "pod/gpu-in-zone-c", "-n=policy", "-o=jsonpath={.spec.nodeName}"); node != "c2" {
		t.Errorf("the pod is on node %q, want c2", node)
	}
	t.Run("samples", func(t *testing.T) { testSamples(t, kubeconfig) })

	if again := framework.StartProcess(t, framework.Demo, shop, "--dir="+dir); again.Wait(t, time.Minute) != 1 ||
		!strings.Contains(again.Output(), "a demo is running already") {
		t.Errorf("a second demo on the same folder said:\n%s", again.Output())
	}

	stop := framework.StartProcess(t, framework.Demo, "--stop", "--dir="+dir)
	if code := stop.Wait(t, time.Minute); code != 0 {
		t.Fatalf("stopping: got exit code %d, want 0:\n%s", code, stop.Output())
	}
	if left := framework.ProcessesOf(t, dir); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there (error %v)", err)
	}
}

// A pod where its scheduler's rule does not allow it turns the verdict, and is
// named with what it breaks; so does a device that was given away twice.
func TestBreak(t *testing.T) {
	t.Setenv("DEMO_BREAK", "1")
	demo, temporary := start(t, sampleShop)
	if code := demo.Wait(t, demoTimeout); code != 1 {
		t.Fatalf("got exit code %d, want 1", code)
	}
	output := demo.Output()
	rows := table(t, output)
	checkPolicy(t, rows)
	checkRefused(t, rows)
	if injected := rows["policy/injected"]; injected.scheduler != "berth-scheduler" || injected.node != "a3" || injected.verdict != "VIOLATION" {
		t.Errorf("policy/injected: got %+v, want a violation on a3", injected)
	}
	var violations []string
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "VIOLATION ") {
			violations = append(violations, strings.TrimSpace(line))
		}
	}
	want := []string{
		`VIOLATION gpu/injected-1: has node "a100-1", but no event Scheduled: berth-scheduler did not place it`,
		`VIOLATION gpu/injected-2: has node "a100-1", but no event Scheduled: berth-scheduler did not place it`,
		`VIOLATION policy/injected: node "a3" lacks label "selectable", which berth-scheduler requires`,
		`VIOLATION policy/injected: has node "a3", but no event Scheduled: berth-scheduler did not place it`,
		`VIOLATION a100-1/0: 1200m of 1000m and 49152Mi of 40960Mi of device 0 of node "a100-1" are allocated, to gpu/injected-1 main (600m 24576Mi), gpu/injected-2 main (600m 24576Mi)`,
	}
	if diff := cmp.Diff(want, violations); diff != "" {
		t.Errorf("unexpected violations (-want,+got):\n%s\nin the output:\n%s", diff, output)
	}
	framework.CheckGone(t, temporary)
}

// Ctrl-C half-way leaves nothing behind.
func TestInterrupt(t *testing.T) {
	demo, temporary := start(t, sampleShop)
	demo.WaitForOutput(t, demoTimeout, "berth-scheduler is ready")
	if len(framework.ProcessesOf(t, temporary)) < 3 {
		t.Fatal("the control plane's processes do not show their folder, so the check below would prove nothing")
	}
	demo.Signal(syscall.SIGINT)
	if code := demo.Wait(t, demoTimeout); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	if !strings.Contains(demo.Output(), "demo: interrupted") {
		t.Errorf("the output does not say that it was interrupted:\n%s", demo.Output())
	}
	framework.CheckGone(t, temporary)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
