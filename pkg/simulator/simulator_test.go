// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/registry"
)

const (
	testdata   = "../../cmd/kubectl-berth/testdata/"
	gpuProfile = "../../config/berth-scheduler/gpu.yaml"
)

// TestOracleIsTold: a profile that is told what comes decides otherwise than one
// that has to learn it.
func TestOracleIsTold(t *testing.T) {
	s, err := New(t.Context(), Options{
		Files: []string{testdata + "nodes.csv", testdata + "pods.csv"}, Profiles: []string{gpuProfile},
		ExpectedWorkload: WorkloadBoth, Seeds: []int64{1}, TargetLoad: 1.3,
	})
	if err != nil {
		t.Fatal(err)
	}
	learned, told := s.profiles[0], s.profiles[1]
	if args := learned.gpuDeviceArgs(); len(args) != 1 || len(args[0].ExpectedWorkload) != 0 {
		t.Errorf("the first profile is told a workload: %v", args)
	}
	args := told.gpuDeviceArgs()
	if len(args) != 1 || len(args[0].ExpectedWorkload) != len(told.workload.Classes()) {
		t.Fatalf("the oracle is not told the workload: %v", args)
	}
	var weight int64
	for _, class := range args[0].ExpectedWorkload {
		weight += class.Weight
		if class.GPUMilli > 1000 && class.GPUMilli != 2000 {
			t.Errorf("class %v", class)
		}
	}
	if weight < 38 || weight > 40 {
		t.Errorf("the workload has %d pods, want 95 %% of 40 or more", weight)
	}
}

// TestWorkloadArgsAreValid, however many shapes and pods an input has.
func TestWorkloadArgsAreValid(t *testing.T) {
	var classes []device.Class
	for i := range 500 {
		classes = append(classes, device.Class{Shape: device.Shape{CPUMilli: int64(i), Devices: 1, Milli: 500}, Weight: int64(1 + i*100_000)})
	}
	workload, err := device.NewWorkload(classes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := loadProfile(gpuProfile, "")
	if err != nil {
		t.Fatal(err)
	}
	p.expect(workload)
	if err := registry.ValidateArgs(p.config); err != nil {
		t.Error(err)
	}
	args := p.gpuDeviceArgs()[0]
	if got := args.ExpectedWorkload; len(got) != 128 || got[0].Weight < 900_000 || got[0].CPU.MilliValue() != 499 {
		t.Errorf("%d classes, the first %v", len(got), got[0])
	}
}

func TestProfileNames(t *testing.T) {
	got := profileNames([]string{"a/gpu.yaml", "b/gpu.yaml", "c/fgd.yml", "plain"})
	if diff := cmp.Diff([]string{"a/gpu.yaml", "b/gpu.yaml", "fgd", "plain"}, got); diff != "" {
		t.Errorf("names (-want,+got):\n%s", diff)
	}
}

// TestGCPercent holds the garbage to a bound that does not grow with the input,
// until Go's own default is reached.
func TestGCPercent(t *testing.T) {
	const mebibyte = 1 << 20
	for _, tt := range []struct {
		name  string
		inUse uint64
		want  int
	}{
		{name: "nothing is in use", inUse: 0, want: 400},
		{name: "a trace", inUse: 32 * mebibyte, want: 400},
		{name: "a cluster", inUse: 128 * mebibyte, want: 200},
		{name: "a large cluster", inUse: 4096 * mebibyte, want: 100},
	} {
		if got := gcPercent(tt.inUse); got != tt.want {
			t.Errorf("%s: gcPercent(%d) = %d, want %d", tt.name, tt.inUse, got, tt.want)
		}
	}
}

// TestGoroutines divides --parallel between runs and within them.
func TestGoroutines(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		parallel, profiles   int
		seeds                int
		wantRuns, wantPerRun int
	}{
		{name: "one run has all", parallel: 8, profiles: 1, seeds: 1, wantRuns: 1, wantPerRun: 8},
		{name: "as many runs", parallel: 2, profiles: 2, seeds: 1, wantRuns: 2, wantPerRun: 1},
		{name: "more runs", parallel: 2, profiles: 2, seeds: 3, wantRuns: 2, wantPerRun: 1},
		{name: "fewer runs", parallel: 8, profiles: 1, seeds: 3, wantRuns: 3, wantPerRun: 2},
		{name: "one core", parallel: 1, profiles: 1, seeds: 1, wantRuns: 1, wantPerRun: 1},
	} {
		s := &Simulation{options: Options{Parallel: tt.parallel, Seeds: make([]int64, tt.seeds)}, profiles: make([]*profile, tt.profiles)}
		if runs, perRun := s.goroutines(); runs != tt.wantRuns || perRun != tt.wantPerRun {
			t.Errorf("%s: %d runs at a time with %d goroutines each, want %d with %d", tt.name, runs, perRun, tt.wantRuns, tt.wantPerRun)
		}
	}
}
