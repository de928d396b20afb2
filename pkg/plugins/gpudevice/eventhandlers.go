// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/instance"
)

// ledgerIndex is the name under which the ledger of a scheduler instance hangs on
// the instance's pod informer.
const ledgerIndex = Name + "/ledger"

// ledgerOf returns the ledger that the profiles of the handle's scheduler instance
// share, and makes one if it is the first to ask.
func ledgerOf(ctx context.Context, handle fwk.Handle) (*ledger, error) {
	core := handle.SharedInformerFactory().Core().V1()
	pods := core.Pods().Informer()
	return instance.Shared(pods, ledgerIndex, func() (*ledger, error) {
		l := &ledger{
			clock:         clock.RealClock{},
			client:        handle.ClientSet(),
			config:        handle.KubeConfig(),
			process:       uuid.NewUUID(),
			pods:          pods,
			nodes:         core.Nodes().Lister(),
			byNode:        map[string]map[types.UID]*podAllocation{},
			invalidations: map[string]*nodeInvalidation{},
		}
		logger := klog.FromContext(ctx)
		options := cache.HandlerOptions{Logger: &logger}
		registration, err := pods.AddEventHandlerWithOptions(l.podHandler(logger), options)
		if err != nil {
			return nil, fmt.Errorf("watching pods: %w", err)
		}
		l.synced = registration.HasSyncedChecker()
		if _, err := core.Nodes().Informer().AddEventHandlerWithOptions(l.nodeHandler(logger), options); err != nil {
			return nil, fmt.Errorf("watching nodes: %w", err)
		}
		return l, nil
	})
}

// join adds a profile's plugin to those that share the ledger. Of the nodes that are
// there already, the handler has told those that joined before.
func (l *ledger) join(pl *GPUDevice) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	nodes, err := l.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range nodes {
		pl.deviceNodes.observe(node, pl.nodeKeys)
	}
	l.members = append(l.members, pl)
	return nil
}

// profiles returns the plugins that share the ledger.
func (l *ledger) profiles() []*GPUDevice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members
}

// observeNode lets the members take note of a version of a node.
func (l *ledger) observeNode(node *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if invalidation := l.invalidations[node.Name]; invalidation != nil {
		invalidation.gone = false
	}
	for _, member := range l.members {
		member.deviceNodes.observe(node, member.nodeKeys)
	}
}

// typedHandler is an event handler for objects of one type. changed is given the version
// before, nil for the first; gone also what the informer missed the deletion of.
func typedHandler[T any](changed func(old, obj *T), gone func(obj *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if typed, ok := obj.(*T); ok {
				changed(nil, typed)
			}
		},
		UpdateFunc: func(oldObj, obj any) {
			old, okOld := oldObj.(*T)
			typed, okNew := obj.(*T)
			if okOld && okNew {
				changed(old, typed)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if typed, ok := obj.(*T); ok {
				gone(typed)
			}
		},
	}
}

func (l *ledger) podHandler(logger klog.Logger) cache.ResourceEventHandler {
	return typedHandler(func(old, pod *corev1.Pod) {
		if old != nil && old.UID != pod.UID {
			// The informer missed that the first was deleted.
			l.drop(old.UID)
		}
		s := l.observe(pod)
		l.report(logger, pod, s)
		if old != nil && old.UID == pod.UID && s.held != nil && !s.first && recordChanged(old, pod) {
			l.reportEdit(logger, pod)
		}
	}, func(pod *corev1.Pod) {
		l.drop(pod.UID)
		l.forgetLearnt(pod.UID)
	})
}

func (l *ledger) nodeHandler(logger klog.Logger) cache.ResourceEventHandler {
	return typedHandler(func(old, node *corev1.Node) {
		l.observeNode(node)
		if old == nil || saysOtherwise(old, node) {
			l.reportNode(logger, old, node)
		}
	}, func(node *corev1.Node) { l.nodeGone(node.Name) })
}

// forgetLearnt lets the members' learners go of a pod that is gone.
func (l *ledger) forgetLearnt(uid types.UID) {
	for _, member := range l.profiles() {
		member.workload.learner.forget(uid)
	}
}
