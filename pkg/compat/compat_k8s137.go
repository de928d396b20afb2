// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package compat

import (
	"context"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	resourceinformers "k8s.io/client-go/informers/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Release is the minor release of Kubernetes that this binary is built on.
const Release = "1.37"

// PodGroups is the group and version in which the API serves the PodGroups of Kubernetes.
const PodGroups = "scheduling.k8s.io/v1beta1"

// PodInformer is what the informers of the core group return for pods.
type PodInformer = coreinformers.TypedPodInformer

// NewCache returns a scheduler's cache that sends no API calls. podGroups is whether it
// keeps PodGroups, as with the feature gate GenericWorkload. What it runs in the
// background ends with ctx.
func NewCache(ctx context.Context, podGroups bool) cache.Cache {
	return cache.New(ctx, nil, podGroups, false)
}

// NewQueuedPodInfo returns a pod that arrived in the scheduler's queue at this time and
// was not tried yet.
func NewQueuedPodInfo(pod *framework.PodInfo, arrival time.Time) *framework.QueuedPodInfo {
	return &framework.QueuedPodInfo{PodInfo: pod, QueueingParams: framework.QueueingParams{
		Timestamp: arrival, InitialAttemptTimestamp: &arrival,
	}}
}

// WithSnapshot returns the options that give a framework the snapshot that it reads,
// and that preemption changes in order to try things out.
func WithSnapshot(snapshot *cache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
	}
}

// trackDeviceTaints has the tracker of ResourceSlices read DeviceTaintRules.
func trackDeviceTaints(options *tracker.Options, informers resourceinformers.Interface) {
	options.TaintInformer = informers.V1().DeviceTaintRules()
}
