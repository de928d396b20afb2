// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package engine

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// GangGates returns no feature gates: the PodGroups of 1.36 are alpha and of a version
// that no later release has.
func GangGates() map[string]bool { return nil }

var errNoPodGroups = errors.New("the PodGroups of Kubernetes 1.36 cannot be simulated: take the build for a newer release, or leave out the feature gate GenericWorkload")

// queuedEntity is what the queue compares with others.
type queuedEntity = *framework.QueuedPodInfo

// queuedEntityOf returns the one pod.
func (e *Engine) queuedEntityOf(members []*framework.QueuedPodInfo) queuedEntity { return members[0] }

// setNext sets what the scheduler schedules next.
func setNext(s *scheduler.Scheduler, next func() queuedEntity) {
	s.NextPod = func(klog.Logger) (*framework.QueuedPodInfo, error) { return next(), nil }
}

func (*Engine) patchPodGroup(context.Context, types.NamespacedName, [][]byte) (string, error) {
	return "", errNoPodGroups
}

func (*Engine) hasPodGroup(types.NamespacedName) bool { return false }

func (*Engine) setPodGroup(klog.Logger, any, runtime.Object) {}

func (*Engine) removePodGroup(klog.Logger, runtime.Object) {}

// SetMinCount returns an error.
func (*Engine) SetMinCount(context.Context, string, string, int) error { return errNoPodGroups }
