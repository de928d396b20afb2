// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
)

const (
	// reasonTaintMissing is the reason of the Warning event on a node that is marked as a
	// tenant's, or as shared, and takes the pods of other schedulers.
	reasonTaintMissing = "TaintMissing"
	actionTaintCheck   = "CheckingTaints"
)

// tellTaints has the scheduler tell of each node that its profiles mark and that has no taint
// with the effect NoSchedule: at start, and when a node becomes one.
func tellTaints(ctx context.Context, built *scheduler) error {
	var tenancies []*config.LabelPresenceTenancy
	profiles := built.config.ComponentConfig.Profiles
	for i := range profiles {
		if t := registry.TenancyOf(&profiles[i]); t != nil && len(tenancies) == 0 {
			tenancies = append(tenancies, t) // all profiles have the same
		}
	}
	shares := registry.Runs(built.effective, gpudevice.Name)
	recorder := built.sched.Profiles[built.names()[0]].EventRecorder()
	return watchTaints(ctx, built.config.InformerFactory, tenancies, shares, recorder)
}

func watchTaints(ctx context.Context, factory informers.SharedInformerFactory, tenancies []*config.LabelPresenceTenancy, shares bool, recorder events.EventRecorder) error {
	tell := func(before []registry.TaintProblem, node *corev1.Node) {
		for _, missing := range registry.MissingTaints(node, tenancies, shares) {
			if slices.Contains(before, missing) {
				continue
			}
			klog.FromContext(ctx).Info("A node takes the pods of other schedulers", "node", klog.KObj(node), "problem", missing.Message, "command", missing.Command)
			recorder.Eventf(node, nil, corev1.EventTypeWarning, reasonTaintMissing, actionTaintCheck, "%s", messages.Cut(fmt.Sprintf("%s: %s", missing.Message, missing.Command)))
		}
	}
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if node, ok := obj.(*corev1.Node); ok {
				tell(nil, node)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, wasNode := oldObj.(*corev1.Node)
			if node, ok := newObj.(*corev1.Node); ok && wasNode {
				tell(registry.MissingTaints(old, tenancies, shares), node)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching nodes for missing taints: %w", err)
	}
	return nil
}
