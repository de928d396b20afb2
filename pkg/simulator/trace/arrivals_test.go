// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/device"
)

// readOpenb reads files of the openb trace, and skips the test where they are not
// at hand.
func readOpenb(tb testing.TB, files ...string) *Trace {
	tb.Helper()
	var trace Trace
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(datasets.Path("openb"), name))
		if errors.Is(err, fs.ErrNotExist) {
			tb.Skipf("the openb trace is not at hand: %v", err)
		}
		if err != nil {
			tb.Fatal(err)
		}
		if err := trace.Read(name, content); err != nil {
			tb.Fatal(err)
		}
	}
	return &trace
}

const openbNodes = "openb_node_list_gpu_node.csv"

// TestOpenbArrivals replays what is known of the paper's runs: how many pods
// arrive with each seed, and which comes first.
func TestOpenbArrivals(t *testing.T) {
	trace := readOpenb(t, openbNodes, "openb_pod_list_default.csv")
	if got := trace.DeviceMilli(); len(trace.Nodes) != 1213 || got != 6_212_000 {
		t.Fatalf("%d nodes with %d milli of devices, want 1213 with 6212000", len(trace.Nodes), got)
	}
	least, most := math.MaxInt, 0
	for seed := int64(42); seed <= 51; seed++ {
		pods, err := Arrivals(trace.Pods, trace.DeviceMilli(), 1.3, seed)
		if err != nil {
			t.Fatal(err)
		}
		least, most = min(least, len(pods)), max(most, len(pods))
		if seed == 42 && (len(pods) != 10_866 || pods[0].Name != "openb-pod-0255") {
			t.Errorf("seed 42: %d pods, the first %s; want 10866, openb-pod-0255", len(pods), pods[0].Name)
		}
	}
	if least != 10_766 || most != 10_866 {
		t.Errorf("%d to %d pods over the seeds, want 10766 to 10866", least, most)
	}
}

// TestOpenbLists reads all lists: what is strict about reading must not be too
// strict for the trace. The multigpu lists ask for more than 130 %.
func TestOpenbLists(t *testing.T) {
	tests := []struct {
		list              string
		pods              int
		leastLoad, atMost float64 // after Arrivals, in percent
		wantMean          float64 // pods, over ten seeds, as published
		tolerance         float64
	}{
		{list: "default", pods: 8152, leastLoad: 129.8, atMost: 130.2, wantMean: 10824, tolerance: 1},
		{list: "gpuspec33", pods: 8152, leastLoad: 129.8, atMost: 130.2, wantMean: 10824, tolerance: 1},
		{list: "gpushare100", pods: 8152, leastLoad: 129.8, atMost: 130.2, wantMean: 16674, tolerance: 1},
		{list: "cpu250", pods: 9420, leastLoad: 129.8, atMost: 130.2, wantMean: 12526, tolerance: 1},
		{list: "multigpu20", pods: 8324, leastLoad: 129.8, atMost: 130.2, wantMean: 9486, tolerance: 1},
		{list: "multigpu50", pods: 9061, leastLoad: 129.8, atMost: 130.2, wantMean: 6445, tolerance: 40},
	}
	for _, tt := range tests {
		t.Run(tt.list, func(t *testing.T) {
			trace := readOpenb(t, openbNodes, "openb_pod_list_"+tt.list+".csv")
			if len(trace.Pods) != tt.pods {
				t.Fatalf("%d pods, want %d", len(trace.Pods), tt.pods)
			}
			if errs := trace.UnknownModels(); len(errs) > 0 {
				t.Errorf("unknown models: %v", errs)
			}
			sum := 0
			for seed := int64(42); seed <= 51; seed++ {
				pods, err := Arrivals(trace.Pods, trace.DeviceMilli(), 1.3, seed)
				if err != nil {
					t.Fatal(err)
				}
				sum += len(pods)
				if load := 100 * float64(demand(pods)) / float64(trace.DeviceMilli()); load < tt.leastLoad || load > tt.atMost {
					t.Errorf("seed %d: load %.2f %%, want %.1f to %.1f", seed, load, tt.leastLoad, tt.atMost)
				}
			}
			if mean := float64(sum) / 10; math.Abs(mean-tt.wantMean) > tt.tolerance {
				t.Errorf("%.1f pods in the mean of ten seeds, published %.0f", mean, tt.wantMean)
			}
			for i := range trace.Pods {
				if _, err := device.ParsePod(trace.Pods[i].Object(""), nil); err != nil {
					t.Errorf("pod %s: %v", trace.Pods[i].Name, err)
				}
			}
		})
	}
}

// TestArrivals has a small list of its own, whose order is pinned: it may not
// change between versions.
func TestArrivals(t *testing.T) {
	pods := []Pod{
		{Name: "d", Devices: 4, Milli: 1000}, {Name: "a", Devices: 1, Milli: 500}, {Name: "c"}, {Name: "b", Devices: 1, Milli: 1000},
	}
	tests := []struct {
		name     string
		capacity int64
		load     float64
		seed     int64
		want     []string
	}{
		{name: "as it is", capacity: 5500, load: 0, seed: 42, want: []string{"c", "d", "b", "a"}},
		{name: "inflated", capacity: 10_000, load: 1.3, seed: 42, want: []string{"c", "d", "b", "a", "d-tuned-0", "b-tuned-1", "b-tuned-2", "a-tuned-3", "a-tuned-4"}},
		{name: "inflated with another seed", capacity: 10_000, load: 1.3, seed: 43, want: []string{"d", "a", "b", "c", "d-tuned-0", "c-tuned-1", "c-tuned-2", "a-tuned-3", "a-tuned-4", "d-tuned-5"}},
		{name: "exactly the target", capacity: 5500, load: 1, seed: 42, want: []string{"c", "d", "b", "a"}},
		{name: "thinned", capacity: 5000, load: 1, seed: 42, want: []string{"c", "d", "b"}},
		{name: "as it is, without devices in the cluster", capacity: 0, load: 0, seed: 42, want: []string{"c", "d", "b", "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(pods)
			arrivals, err := Arrivals(pods, tt.capacity, tt.load, tt.seed)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, pod := range arrivals {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("order (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pods); diff != "" {
				t.Errorf("Arrivals changed its argument:\n%s", diff)
			}
		})
	}
}

// TestArrivalsHaveUniqueNames: a copy is another pod, whatever the list calls its
// own.
func TestArrivalsHaveUniqueNames(t *testing.T) {
	pods := []Pod{{Name: "p", Devices: 1, Milli: 1}}
	for i := range 50 {
		pods = append(pods, Pod{Name: fmt.Sprintf("p-tuned-%d", i)})
	}
	arrivals, err := Arrivals(pods, 1000, 0.1, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, pod := range arrivals {
		if seen[pod.Name] {
			t.Fatalf("two pods are called %s", pod.Name)
		}
		seen[pod.Name] = true
	}
	if len(arrivals) <= len(pods) {
		t.Error("no pod was added")
	}
}

func TestArrivalsErrors(t *testing.T) {
	gpu := []Pod{{Name: "p", Devices: 1, Milli: 1000}}
	tests := []struct {
		name     string
		pods     []Pod
		capacity int64
		load     float64
		want     string
	}{
		{name: "negative load", pods: gpu, capacity: 1000, load: -1, want: "the target load is -1: want 0, for the list as it is, to 100"},
		{name: "load beyond reason", pods: gpu, capacity: 1000, load: 101, want: "the target load is 101"},
		{name: "no number", pods: gpu, capacity: 1000, load: math.NaN(), want: "the target load is NaN"},
		{name: "nodes without devices", pods: gpu, load: 1, want: "no load to aim at"},
		{name: "pods without devices", pods: []Pod{{Name: "p"}}, capacity: 1000, load: 1, want: "no load to aim at"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Arrivals(tt.pods, tt.capacity, tt.load, 1)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// demand returns what the pods ask for in all.
func demand(pods []Pod) int64 {
	var sum int64
	for i := range pods {
		sum += pods[i].DeviceMilli()
	}
	return sum
}

// TestThinningIsLinear: a long list for a small cluster is thinned in
// a moment; quadratic, it would take minutes.
func TestThinningIsLinear(t *testing.T) {
	pods := make([]Pod, 200_000)
	for i := range pods {
		pods[i] = Pod{Name: fmt.Sprintf("p%07d", i), Devices: 1, Milli: 1000}
	}
	arrivals, err := Arrivals(pods, 10_000, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(arrivals) != 10 {
		t.Errorf("%d pods, want 10", len(arrivals))
	}
}
