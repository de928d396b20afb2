// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

// schedulerCode are the functions whose time counts as the scheduler's, that of what
// they call included: the cycles, binding, the queue, the handlers of events, and
// Berth's plugins. What runs in goroutines of others is nobody's: garbage
// collection, decoding in informers and sending by the HTTP client.
var schedulerCode = regexp.MustCompile(`^k8s\.io/kubernetes/pkg/scheduler[./]|^github\.com/berth-scheduler/berth/pkg/`)

// processCPU returns what all threads of this process have used so far, in user and
// in system mode: scheduler, API server and load generator; etcd is another process.
func processCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// cpuProfile samples where this process spends its CPU time, 100 times a second of
// it: with n samples the result is uncertain by about one in the square root of n.
type cpuProfile struct {
	// file is where the profile is left.
	file string

	once    sync.Once
	running bool
	samples bytes.Buffer
}

// start begins to sample. Only one profile can run in a process.
func (p *cpuProfile) start() error {
	if err := pprof.StartCPUProfile(&p.samples); err != nil {
		return fmt.Errorf("sampling CPU time (leave out -cpuprofile): %w", err)
	}
	p.running = true
	return nil
}

// stop ends sampling, if it has begun.
func (p *cpuProfile) stop() {
	if p.running {
		p.once.Do(pprof.StopCPUProfile)
	}
}

// attributed returns the scheduler's part of the samples, 0 if there was none.
func (p *cpuProfile) attributed() (time.Duration, error) {
	if p.samples.Len() == 0 {
		return 0, errors.New("no CPU time was sampled")
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o755); err != nil {
		return 0, err
	}
	if err := os.WriteFile(p.file, p.samples.Bytes(), 0o644); err != nil {
		return 0, err
	}
	parsed, err := profile.ParseData(p.samples.Bytes())
	if err != nil {
		return 0, fmt.Errorf("reading the samples of CPU time: %w", err)
	}
	var sum time.Duration
	for _, sample := range parsed.Sample {
		if slices.ContainsFunc(sample.Location, isSchedulerCode) {
			sum += time.Duration(sample.Value[1]) // samples/count, cpu/nanoseconds
		}
	}
	return sum, nil
}

// isSchedulerCode reports whether a place in a stack is in one of the functions of
// schedulerCode.
func isSchedulerCode(location *profile.Location) bool {
	return slices.ContainsFunc(location.Line, func(line profile.Line) bool { return schedulerCode.MatchString(line.Function.Name) })
}
