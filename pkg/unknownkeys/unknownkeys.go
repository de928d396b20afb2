// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unknownkeys warns the owner of a pod that carries a label or
// annotation in Berth's domain that means nothing: a typo would otherwise be
// silent, because the API server accepts any key and no plugin looks at it.
package unknownkeys

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/eventnote"
)

const (
	// Reason is the reason of the Warning event.
	Reason = "UnknownBerthKey"
	action = "Scheduling"
)

// Watch adds a handler to the pod informer of factory that records one Warning
// event for each pending pod with such a key, when the pod is first seen and
// when an update adds another such key. recorder returns the recorder of the
// profile that serves a schedulerName, or nil for pods that are not ours.
//
// Call it before the factory is started. It returns an error only if the
// informer was stopped. With two replicas each records the event: the handler
// runs before leader election, and a warning too many does no harm.
func Watch(factory informers.SharedInformerFactory, recorder func(schedulerName string) events.EventRecorder) error {
	warn := func(old, pod *corev1.Pod) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			return
		}
		keys := unknown(pod)
		if len(keys) == 0 || (old != nil && slices.Equal(keys, unknown(old))) {
			return
		}
		if r := recorder(pod.Spec.SchedulerName); r != nil {
			r.Eventf(pod, nil, corev1.EventTypeWarning, Reason, action, "%s", message(keys))
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*corev1.Pod); ok {
				warn(nil, pod)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, ok := oldObj.(*corev1.Pod)
			if !ok {
				return
			}
			if pod, ok := newObj.(*corev1.Pod); ok {
				warn(old, pod)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods for unknown %s keys: %w", names.Domain, err)
	}
	return nil
}

// unknown returns the keys of pod, sorted, that lie in Berth's domain and mean
// nothing.
func unknown(pod *corev1.Pod) []string {
	var keys []string
	for _, m := range []map[string]string{pod.Labels, pod.Annotations} {
		for key := range m {
			if names.IsUnknownPodKey(key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// message names the way out and the keys, as many as an event has room for.
func message(keys []string) string {
	return eventnote.Cut("metadata: no plugin of this scheduler reads these keys (correct the spelling, or remove them): " +
		strings.Join(keys, ", "))
}
