// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/registry"
)

const (
	observerName = "PlacementObserver"
	// What templates/node.yaml and templates/pod-existing.yaml make: a pod of the
	// backend on every fourth node, and so in every second of ten zones.
	peerNodes = 4
	peerZones = 2
)

// observer counts where the measured pods of one run landed, and knows what the
// schedulers of this process had measured before. The schedulers' profiles decide
// about it as they do about nothing: it only watches pods.
type observer struct {
	before durations
	mu     sync.Mutex
	// nodes has the node of each measured pod.
	nodes map[types.UID]string
}

// observers are those of all runs, in their order.
type observers struct {
	mu  sync.Mutex
	all []*observer
}

// registry returns the plugins of Berth, of which Colocation starts an observer
// when it is built, and one that does nothing else, for stock.
func (o *observers) registry(colocation string) frameworkruntime.Registry {
	plugins := registry.New()
	build := plugins[colocation]
	plugins[colocation] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if err := o.start(handle); err != nil {
			return nil, err
		}
		return build(ctx, args, handle)
	}
	plugins[observerName] = func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return idle{}, o.start(handle)
	}
	return plugins
}

// start begins to watch a scheduler's pods.
func (o *observers) start(handle fwk.Handle) error {
	before, err := gather()
	if err != nil {
		return err
	}
	started := &observer{before: before, nodes: map[types.UID]string{}}
	_, err = handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { started.note(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { started.note(object.(*corev1.Pod)) },
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, started)
	return nil
}

func (o *observer) note(pod *corev1.Pod) {
	if pod.Labels["app"] != "frontend" || pod.Spec.NodeName == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes[pod.UID] = pod.Spec.NodeName
}

// durations is how often a scheduler of this process has looked for a node so far,
// and the seconds that it took in all. scheduler_perf resets metrics between its
// runs, but not this one, which has no labels: what it reports is a mean over all
// runs until then.
type durations struct {
	count   uint64
	seconds float64
}

func gather() (durations, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return durations{}, fmt.Errorf("gathering metrics: %w", err)
	}
	for _, family := range families {
		if family.GetName() == "scheduler_scheduling_algorithm_duration_seconds" {
			histogram := family.GetMetric()[0].GetHistogram()
			return durations{histogram.GetSampleCount(), histogram.GetSampleSum()}, nil
		}
	}
	return durations{}, nil // no scheduler has started yet
}

// mean returns the milliseconds that each search for a node has taken since before.
func (d durations) mean(before durations) float64 {
	if d.count == before.count {
		return 0
	}
	return 1000 * (d.seconds - before.seconds) / float64(d.count-before.count)
}

// measured returns what became of each run: every observer's until the next.
func (o *observers) measured() ([]measurement, error) {
	end, err := gather()
	if err != nil {
		return nil, err
	}
	var runs []measurement
	for i, observer := range o.all {
		until := end
		if i+1 < len(o.all) {
			until = o.all[i+1].before
		}
		landed, err := observer.placement()
		if err != nil {
			return nil, err
		}
		runs = append(runs, measurement{placement: landed, algorithm: until.mean(observer.before)})
	}
	return runs, nil
}

// measurement is what the observers saw of one run.
type measurement struct {
	placement
	// algorithm is the mean time of a search for a node, in milliseconds.
	algorithm float64
}

// placement is how many pods landed, and how many of them beside a pod of the
// backend and in its zone.
type placement struct{ pods, node, zone int }

func (o *observer) placement() (placement, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := placement{pods: len(o.nodes)}
	for _, name := range o.nodes {
		index, err := strconv.Atoi(strings.TrimPrefix(name, "node-"))
		if err != nil {
			return placement{}, fmt.Errorf("node %q: %w", name, err)
		}
		if index%peerNodes == 0 {
			seen.node++
		}
		if index%peerZones == 0 {
			seen.zone++
		}
	}
	return seen, nil
}

// idle is a plugin that does nothing.
type idle struct{}

func (idle) Name() string { return observerName }

func (idle) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {}
