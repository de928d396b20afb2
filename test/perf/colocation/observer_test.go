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

// observer counts where the measured pods of one run landed. The schedulers'
// profiles decide about it as they do about nothing: it only watches pods.
type observer struct {
	mu sync.Mutex
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
	started := &observer{nodes: map[types.UID]string{}}
	_, err := handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
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
