// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// ledgerIndex is the name under which the ledger of a scheduler instance hangs on
// the instance's pod informer.
const ledgerIndex = Name + "/ledger"

// ledgerProbe is an object that no informer delivers. The function of ledgerIndex
// writes the ledger into it.
type ledgerProbe struct{ ledger *ledger }

// ledgerOf returns the ledger of the handle's informer factory, and makes one if
// it is the first to ask.
//
// A process may hold several scheduler instances (a simulator does), and nothing
// but the informer factory tells to which a profile belongs. The ledger is
// therefore kept where the factory is, as an index of its pod informer that
// indexes nothing, and goes with it. A map of factories in this package would
// keep every ledger for ever.
func ledgerOf(ctx context.Context, handle fwk.Handle) (*ledger, error) {
	core := handle.SharedInformerFactory().Core().V1()
	pods := core.Pods().Informer()
	if index, ok := pods.GetIndexer().GetIndexers()[ledgerIndex]; ok {
		probe := &ledgerProbe{}
		if _, err := index(probe); err != nil || probe.ledger == nil {
			return nil, fmt.Errorf("index %q of pods holds no ledger (%w)", ledgerIndex, err)
		}
		return probe.ledger, nil
	}
	l := &ledger{
		clock:  clock.RealClock{},
		client: handle.ClientSet(),
		pods:   pods,
		nodes:  core.Nodes().Lister(),
		byNode: map[string]map[types.UID]*holder{},
		marks:  map[string]*nodeMarks{},
	}
	err := pods.AddIndexers(cache.Indexers{ledgerIndex: func(obj any) ([]string, error) {
		if probe, ok := obj.(*ledgerProbe); ok {
			probe.ledger = l
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("adding index %q of pods: %w", ledgerIndex, err)
	}
	logger := klog.FromContext(ctx)
	options := cache.HandlerOptions{Logger: &logger}
	registration, err := pods.AddEventHandlerWithOptions(l.podHandler(logger), options)
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	l.synced = registration.HasSyncedChecker()
	if _, err := core.Nodes().Informer().AddEventHandlerWithOptions(l.nodeHandler(), options); err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return l, nil
}

// join adds a profile's plugin to those that share the ledger.
func (l *ledger) join(pl *GPUDevice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = append(l.members, pl)
}

func (l *ledger) podHandler(logger klog.Logger) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*corev1.Pod); ok {
				l.report(logger, pod, l.observe(pod))
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, okOld := oldObj.(*corev1.Pod)
			pod, okNew := newObj.(*corev1.Pod)
			if !okOld || !okNew {
				return
			}
			if old.UID != pod.UID {
				// The informer missed that the first was deleted.
				l.drop(old.UID)
			}
			s := l.observe(pod)
			l.report(logger, pod, s)
			if s.holder != nil && !s.first && old.UID == pod.UID && recordChanged(old, pod) {
				l.reportEdit(logger, pod)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				l.drop(pod.UID)
				l.forgetLearnt(pod.UID)
			}
		},
	}
}

// forgetLearnt lets the members' learners go of a pod that is gone.
func (l *ledger) forgetLearnt(uid types.UID) {
	l.mu.Lock()
	members := l.members
	l.mu.Unlock()
	for _, member := range members {
		member.workload.learner.forget(uid)
	}
}

func (l *ledger) nodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				l.nodeGone(node.Name)
			}
		},
	}
}
