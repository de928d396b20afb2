// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

// afterwards is how long the observer may be behind scheduler_perf, which has seen
// all pods bound.
const afterwards = 30 * time.Second

// observer measures one run between two events: the first measured pod is seen, and
// the last of them is seen with a node. It watches pods through the scheduler's own
// informer and has no part in any decision. scheduler_perf's own figures do not do:
// it samples throughput once a second, so that a small workload has none, and a
// histogram without labels keeps what all earlier runs put into it.
type observer struct {
	attached bool
	profiles []string
	want     int

	mu         sync.Mutex
	nodes      map[types.UID]string
	begin, end reading
	profile    cpuProfile
	finished   chan struct{}
	measured   *Measurement
	err        error
}

// attach starts to watch, once the nodes are there. It is called for every group of
// nodes, and before the workload's first pod.
func (o *observer) attach(tCtx tContext, sched *scheduler.Scheduler, workload *perf.Workload, _ *corev1.NodeList) error {
	if o.attached {
		return nil
	}
	o.attached = true
	want, err := workload.GetParam("measuredPods")
	if err != nil {
		return err
	}
	o.want, o.nodes, o.finished = want, make(map[types.UID]string, want), make(chan struct{})
	var informer cache.SharedIndexInformer
	for name, framework := range sched.Profiles {
		o.profiles = append(o.profiles, name)
		informer = framework.SharedInformerFactory().Core().V1().Pods().Informer()
	}
	if informer == nil {
		return errors.New("the scheduler has no profile")
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.note(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { o.note(object.(*corev1.Pod)) },
	}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	// Before the servers stop.
	tCtx.TB().Cleanup(func() {
		select {
		case <-o.finished:
		case <-time.After(afterwards):
		}
		o.conclude()
		if b, ok := tCtx.TB().(*testing.B); ok && o.measured != nil {
			o.measured.show(b)
		}
	})
	return nil
}

// note takes notice of a pod. It is called in the order of the events.
func (o *observer) note(pod *corev1.Pod) {
	if _, measured := pod.Labels[MeasuredLabel]; !measured {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begin.at.IsZero() {
		o.err = errors.Join(o.err, o.profile.start())
		o.begin = o.read()
	}
	if pod.Spec.NodeName == "" {
		return
	}
	if o.nodes[pod.UID] = pod.Spec.NodeName; len(o.nodes) == o.want && o.end.at.IsZero() {
		o.end = o.read()
		o.profile.stop()
		close(o.finished)
	}
}

// reading is what the meters of this process show at one moment.
type reading struct {
	at time.Time
	// cpu is the time of all threads.
	cpu time.Duration
	// searches counts the pods for which a node was found, which took seconds.
	searches uint64
	seconds  float64
	// hints counts the pods that took the node which batching had ready.
	hints float64
	// victims sums up the pods that preemption chose.
	victims float64
}

func (o *observer) read() reading {
	now := reading{at: time.Now()}
	var errs [5]error
	now.cpu, errs[0] = processCPU()
	now.searches, errs[1] = testutil.GetHistogramMetricCount(metrics.SchedulingAlgorithmLatency.ObserverMetric)
	now.seconds, errs[2] = testutil.GetHistogramMetricValue(metrics.SchedulingAlgorithmLatency.ObserverMetric)
	now.victims, errs[4] = testutil.GetHistogramMetricValue(metrics.PreemptionVictims.ObserverMetric)
	for _, profile := range o.profiles {
		used, err := testutil.GetCounterMetricValue(metrics.BatchAttemptStats.WithLabelValues(profile, metrics.BatchAttemptHintUsed))
		now.hints, errs[3] = now.hints+used, errors.Join(errs[3], err)
	}
	o.err = errors.Join(o.err, errors.Join(errs[:]...))
	return now
}

// conclude turns the readings into a measurement.
func (o *observer) conclude() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profile.stop()
	if o.err == nil {
		o.measured, o.err = o.measure()
	}
}

func (o *observer) measure() (*Measurement, error) {
	if o.end.at.IsZero() {
		return nil, fmt.Errorf("%d of %d measured pods (label %q) were seen with a node", len(o.nodes), o.want, MeasuredLabel)
	}
	pods := float64(len(o.nodes))
	took := o.end.at.Sub(o.begin.at)
	measured := &Measurement{Pods: len(o.nodes), Seconds: took.Seconds(), Metrics: map[string]float64{
		Throughput: pods / took.Seconds(),
		ProcessCPU: 1000 * (o.end.cpu - o.begin.cpu).Seconds() / pods,
		Batched:    (o.end.hints - o.begin.hints) / pods,
	}}
	if searches := o.end.searches - o.begin.searches; searches > 0 {
		measured.Metrics[Algorithm] = 1000 * (o.end.seconds - o.begin.seconds) / float64(searches)
	}
	if victims := o.end.victims - o.begin.victims; victims > 0 {
		measured.Metrics[Victims] = victims
	}
	attributed, err := o.profile.attributed()
	if err != nil {
		return nil, err
	}
	if attributed > 0 {
		measured.Metrics[SchedulerCPU] = 1000 * attributed.Seconds() / pods
	}
	return measured, nil
}

// result returns what was measured, and the nodes of the measured pods.
func (o *observer) result() (*Measurement, []string, error) {
	if !o.attached {
		return nil, nil, errors.New("the workload creates no nodes")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.measured, slices.Sorted(maps.Values(o.nodes)), o.err
}
