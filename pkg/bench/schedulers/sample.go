// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The metrics that a Sample is made of. Each scheduler that has bound a pod has them
// all; a page without one is an error, and never a zero.
const (
	requestsMetric = "rest_client_requests_total"
	waitsMetric    = "rest_client_rate_limiter_duration_seconds"
	cpuMetric      = "process_cpu_seconds_total"
	memoryMetric   = "process_resident_memory_bytes"
)

// errNotKnown is that a server does not take the client for who it is.
var errNotKnown = errors.New("not known to the server")

// scrapeInterval is the pause between two attempts to be known.
const scrapeInterval = 200 * time.Millisecond

// scrapeOnceKnown reads a page of metrics. A scheduler that has just started answers
// before it has read by which authority clients are known; a connection from that
// time stays anonymous, so each further attempt makes a new one.
func scrapeOnceKnown(ctx context.Context, client *http.Client, url string, timeout time.Duration) (sample *Sample, err error) {
	pollErr := wait.PollUntilContextTimeout(ctx, scrapeInterval, timeout, true, func(context.Context) (bool, error) {
		if sample, err = scrape(ctx, client, url); errors.Is(err, errNotKnown) {
			client.CloseIdleConnections()
			return false, nil
		}
		return true, nil
	})
	if pollErr != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return sample, err
}

// scrape reads a page of metrics.
func scrape(ctx context.Context, client *http.Client, url string) (*Sample, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %s: %w", url, response.Status, errNotKnown)
	default:
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	sample, err := parseSample(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return sample, nil
}

// parseSample reads metrics in Prometheus' text format.
func parseSample(page io.Reader) (*Sample, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{requestsMetric, waitsMetric, cpuMetric, memoryMetric} {
		if len(families[name].GetMetric()) == 0 {
			return nil, fmt.Errorf("there is no metric %s", name)
		}
	}
	sample := &Sample{}
	for _, single := range []struct {
		name   string
		target *float64
	}{{cpuMetric, &sample.CPUSeconds}, {memoryMetric, &sample.MemoryBytes}} {
		metric := families[single.name].GetMetric()[0]                                 // a process has one
		*single.target = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() // it is one of the two
	}
	for _, metric := range families[requestsMetric].GetMetric() {
		switch labelOf(metric, "method") {
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
			sample.Writes += metric.GetCounter().GetValue()
		}
	}
	for _, metric := range families[waitsMetric].GetMetric() {
		histogram := metric.GetHistogram()
		sample.Requests += float64(histogram.GetSampleCount())
		prompt := 0.0
		for _, bucket := range histogram.GetBucket() {
			if bucket.GetUpperBound() <= DelayThreshold.Seconds() {
				prompt = max(prompt, float64(bucket.GetCumulativeCount()))
			}
		}
		sample.Delayed += float64(histogram.GetSampleCount()) - prompt
	}
	return sample, nil
}

// labelOf returns the value of a label; empty without it.
func labelOf(metric *dto.Metric, name string) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// peakMemory returns the largest resident memory that a process has had, in bytes,
// where the system tells: Linux does.
func peakMemory(pid int) (float64, bool) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	status, err := process.NewStatus()
	return float64(status.VmHWM), err == nil
}
