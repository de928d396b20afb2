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
	// duration is how long a scheduler looked for a node, in milliseconds a pod.
	duration = "scheduler_scheduling_algorithm_duration_seconds"
)

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) {
	seen := &observers{}
	runs := contest.Run(b, "performance-config.yaml", "colocation", seen.registry("Colocation"))
	var placements []placement
	for _, o := range seen.all {
		p, err := o.placement()
		if err != nil {
			b.Fatal(err)
		}
		placements = append(placements, p)
	}
	text, err := report(runs, placements)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Print(text)
}

// report prints what each run measured, placements being those of the runs in
// their order, and the median of the ratios.
func report(runs [][]contest.Result, placements []placement) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%4s %-6s %-12s %12s %8s %14s %14s\n", "run", "", "existing", "algorithm ms", "pods/s", "on peer's node", "in peer's zone")
	next := 0
	ratios, growth := map[string][]float64{}, map[string][]float64{}
	for i, run := range runs {
		for k := range run {
			if next == len(placements) {
				return "", fmt.Errorf("%d observers for more runs than that", len(placements))
			}
			p := placements[next]
			next++
			r := &run[k]
			part := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(p.pods, 1))) }
			fmt.Fprintf(&out, "%4d %-6s %-12s %12.3f %8.0f %14s %14s\n", i, r.Contender, r.Workload,
				r.Metrics[duration], r.Metrics[contest.Throughput], part(p.node), part(p.zone))
			if r.Contender != berth {
				continue
			}
			if theirs := contest.Find(run, stock, r.Workload); theirs != nil && r.Metrics[duration] > 0 {
				ratios[r.Workload] = append(ratios[r.Workload], theirs.Metrics[duration]/r.Metrics[duration])
			}
		}
		for _, contender := range []string{berth, stock} {
			few, many := contest.Find(run, contender, "5000Pods"), contest.Find(run, contender, "50000Pods")
			if few != nil && many != nil && few.Metrics[duration] > 0 {
				growth[contender] = append(growth[contender], many.Metrics[duration]/few.Metrics[duration])
			}
		}
	}
	for _, workload := range []string{"5000Pods200", "5000Pods", "50000Pods"} {
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
	result := func(contender, workload string, ms float64) contest.Result {
		return contest.Result{Contender: contender, Workload: workload, Metrics: map[string]float64{duration: ms, contest.Throughput: 100}}
	}
	runs := [][]contest.Result{
		{result(berth, "5000Pods", 1), result(berth, "50000Pods", 1.5), result(stock, "5000Pods", 5), result(stock, "50000Pods", 30)},
		{result(berth, "5000Pods", 1), result(berth, "50000Pods", 1), result(stock, "5000Pods", 8), result(stock, "50000Pods", 30)},
	}
	placements := slices.Repeat([]placement{{pods: 200, node: 50, zone: 100}}, 8)
	got, err := report(runs, placements)
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
	if _, err := report(runs, placements[:7]); err == nil {
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
