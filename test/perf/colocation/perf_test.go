// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package colocation measures with Kubernetes' own scheduler_perf what it costs to
// place a pod near a Service: Colocation with the shipped profile beside the same
// preference as inter-pod affinity on stock kube-scheduler, on 5,000 nodes, with
// few and with many pods of that Service, and how many of the pods land where they
// want. "make test-perf" runs it; scheduler_perf needs an etcd in PATH, and
// -benchtime=1x.
package colocation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/perf/contest"
)

const (
	berth = "Berth"
	stock = "Stock"
)

// workloads are the names of those in performance-config.yaml.
var workloads = []string{"5000Pods200", "5000Pods", "50000Pods"}

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) {
	seen := &observers{}
	runs := contest.Run(b, "performance-config.yaml", "colocation", seen.registry("Colocation"))
	measured, err := seen.measured()
	if err != nil {
		b.Fatal(err)
	}
	text, err := report(runs, measured)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Print(text)
}

// report prints what each run measured, measured being what was seen of the runs in
// their order, and the median of the ratios of the algorithm's time.
func report(runs [][]contest.Result, measured []measurement) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%4s %-6s %-12s %12s %8s %14s %14s\n", "run", "", "existing", "algorithm ms", "pods/s", "on peer's node", "in peer's zone")
	ratios, growth := map[string][]float64{}, map[string][]float64{}
	for i, run := range runs {
		if len(measured) < len(run) {
			return "", fmt.Errorf("run %d: %d observers for %d workloads", i, len(measured), len(run))
		}
		// took has the algorithm's time by contender and workload.
		took := map[[2]string]float64{}
		for k := range run {
			r, m := &run[k], &measured[k]
			took[[2]string{r.Contender, r.Workload}] = m.algorithm
			part := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(m.pods, 1))) }
			fmt.Fprintf(&out, "%4d %-6s %-12s %12.3f %8.0f %14s %14s\n", i, r.Contender, r.Workload,
				m.algorithm, r.Metrics[contest.Throughput], part(m.node), part(m.zone))
		}
		measured = measured[len(run):]
		for _, workload := range workloads {
			ours, theirs := took[[2]string{berth, workload}], took[[2]string{stock, workload}]
			if ours > 0 && theirs > 0 {
				ratios[workload] = append(ratios[workload], theirs/ours)
			}
		}
		for _, contender := range []string{berth, stock} {
			few, many := took[[2]string{contender, "5000Pods"}], took[[2]string{contender, "50000Pods"}]
			if few > 0 && many > 0 {
				growth[contender] = append(growth[contender], many/few)
			}
		}
	}
	for _, workload := range workloads {
		if values := ratios[workload]; len(values) > 0 {
			fmt.Fprintf(&out, "algorithm time, stock/Berth, %s: %s\n", workload, spread(values))
		}
	}
	for _, contender := range []string{berth, stock} {
		if values := growth[contender]; len(values) > 0 {
			fmt.Fprintf(&out, "algorithm time, 50,000/5,000 existing pods, %s: %s\n", contender, spread(values))
		}
	}
	return out.String() + "\n", nil
}

// spread is the median of the values, and their ends.
func spread(values []float64) string {
	slices.SortFunc(values, cmp.Compare[float64])
	return fmt.Sprintf("median %.2f, from %.2f to %.2f", values[len(values)/2], values[0], values[len(values)-1])
}

func TestReport(t *testing.T) {
	result := func(contender, workload string) contest.Result {
		return contest.Result{Contender: contender, Workload: workload, Metrics: map[string]float64{contest.Throughput: 100}}
	}
	run := []contest.Result{result(berth, "5000Pods"), result(berth, "50000Pods"), result(stock, "5000Pods"), result(stock, "50000Pods")}
	runs := [][]contest.Result{run, run}
	var measured []measurement
	for _, ms := range []float64{1, 1.5, 5, 30, 1, 1, 8, 30} {
		measured = append(measured, measurement{placement{pods: 200, node: 50, zone: 100}, ms})
	}
	got, err := report(runs, measured)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"5000Pods: median 8.00, from 5.00 to 8.00", "50000Pods: median 30.00, from 20.00 to 30.00",
		"existing pods, Berth: median 1.50, from 1.00 to 1.50", "25.0 %", "50.0 %",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if _, err := report(runs, measured[:7]); err == nil {
		t.Error("a run without an observer was reported")
	}
}

func TestPlacement(t *testing.T) {
	o := &observer{nodes: map[types.UID]string{"1": "node-0", "2": "node-104", "3": "node-10", "4": "node-7"}}
	got, err := o.placement()
	if want := (placement{pods: 4, node: 2, zone: 3}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	o.nodes["5"] = "gone"
	if _, err := o.placement(); err == nil {
		t.Error("a node of another name was counted")
	}
}

// What one run measured is the difference between the start of its scheduler and
// that of the next.
func TestMean(t *testing.T) {
	first, second := durations{count: 10, seconds: 1}, durations{count: 30, seconds: 2}
	if got := second.mean(first); got != 50 {
		t.Errorf("got a mean of %g ms, want 50", got)
	}
	if got := first.mean(first); got != 0 {
		t.Errorf("got a mean of %g ms of nothing, want 0", got)
	}
}
