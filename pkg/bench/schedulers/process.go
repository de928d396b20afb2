// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

const (
	// stopTimeout is how long a scheduler may take to stop before it is killed.
	stopTimeout = 15 * time.Second
	// maxRBACErrors is how many lines of a log are handed on.
	maxRBACErrors = 3
)

// schedulerProcess is a scheduler that runs as a process of its own.
type schedulerProcess struct {
	*process.Process
	http *http.Client
	// metrics is a URL.
	metrics string
	failed  chan error
}

var _ Running = &schedulerProcess{}

// startProcess starts a binary; its output replaces the log.
func startProcess(binary string, args []string, log string) (*schedulerProcess, error) {
	if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s := &schedulerProcess{failed: make(chan error, 1)}
	var err error
	s.Process, err = process.Start(process.Options{LogFile: log, OnFailure: func(err error) { s.failed <- err }}, binary, args...)
	return s, err
}

// Sample implements Running.
func (s *schedulerProcess) Sample(ctx context.Context) (*Sample, error) {
	sample, err := scrapeOnceKnown(ctx, s.http, s.metrics, metricsTimeout)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", s.Name, err)
	}
	if peak, ok := peakMemory(s.PID()); ok {
		sample.MemoryBytes = peak
	}
	return sample, nil
}

// Failed implements Running.
func (s *schedulerProcess) Failed() <-chan error { return s.failed }

// Stop implements Running.
func (s *schedulerProcess) Stop() (rbacErrors []string, err error) {
	err = s.Process.Stop(stopTimeout)
	content, readErr := os.ReadFile(s.LogFile)
	if readErr != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", s.Name, readErr)
	}
	return rbacErrorsIn(content), err
}

// rbacErrorsIn returns the first lines of a log that tell of a missing right. A
// scheduler that lacks one runs on, and works with what it can see.
func rbacErrorsIn(log []byte) []string {
	var found []string
	for line := range strings.Lines(string(log)) {
		lower := strings.ToLower(line)
		if strings.Contains(lower, "forbidden") || strings.Contains(lower, "cannot list") {
			found = append(found, strings.TrimSpace(line))
			if len(found) == maxRBACErrors {
				break
			}
		}
	}
	return found
}
