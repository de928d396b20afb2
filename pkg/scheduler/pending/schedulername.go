// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/messages"
)

// ReasonSchedulerName is the reason of the Warning event on a pod whose schedulerName no
// scheduler seems to handle.
const ReasonSchedulerName = "UnknownSchedulerName"

// WatchSchedulerNames records one Warning event for each pod whose schedulerName is
// that of a profile with a typo. recorders are those of the profiles, by name.
//
// A scheduler cannot know which others exist. It takes a name for a typo if the name
// differs from a profile's by a typo, if the pod has neither a node nor a scheduler's
// condition after timeout, and if no pod with that name ever had one. The informer of
// pods, which the scheduler needs anyway, delivers the pods of all schedulers, so
// nothing more is read.
//
// Call it before the factory is started. It returns an error only if the informer
// was stopped.
func WatchSchedulerNames(ctx context.Context, factory informers.SharedInformerFactory, recorders map[string]events.EventRecorder,
	clk clock.WithDelayedExecution, timeout time.Duration,
) error {
	_, err := watchSchedulerNames(ctx, factory, recorders, clk, timeout)
	return err
}

// watchSchedulerNames also returns whether the pods that existed at the start have been
// looked at.
func watchSchedulerNames(ctx context.Context, factory informers.SharedInformerFactory, recorders map[string]events.EventRecorder,
	clk clock.WithDelayedExecution, timeout time.Duration,
) (synced cache.InformerSynced, err error) {
	w := newSchedulerNames(ctx, factory, recorders, clk, timeout)
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*corev1.Pod); ok {
				w.see(nil, pod)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, oldOK := oldObj.(*corev1.Pod)
			pod, newOK := newObj.(*corev1.Pod)
			if oldOK && newOK {
				w.see(old, pod)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods for misspelled schedulerNames: %w", err)
	}
	return registration.HasSynced, nil
}

func newSchedulerNames(ctx context.Context, factory informers.SharedInformerFactory, recorders map[string]events.EventRecorder,
	clk clock.WithDelayedExecution, timeout time.Duration,
) *schedulerNames {
	return &schedulerNames{
		done:      ctx.Done(),
		recorders: recorders,
		pods:      factory.Core().V1().Pods().Lister(),
		clock:     clk,
		timeout:   timeout,
		served:    map[string]struct{}{},
	}
}

type schedulerNames struct {
	done      <-chan struct{}
	recorders map[string]events.EventRecorder
	pods      corelisters.PodLister
	clock     clock.WithDelayedExecution
	timeout   time.Duration

	mu sync.Mutex
	// served are the names, like a profile's, that some scheduler handles.
	served map[string]struct{}
}

// see looks at a new pod, or at one that was old before. The timeout starts when the pod can
// be scheduled.
func (w *schedulerNames) see(old, pod *corev1.Pod) {
	meant := w.meant(pod.Spec.SchedulerName)
	switch {
	case meant == "":
	case WasTaken(pod):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.served[pod.Spec.SchedulerName] = struct{}{}
	case len(pod.Spec.SchedulingGates) == 0 && (old == nil || len(old.Spec.SchedulingGates) > 0):
		w.clock.AfterFunc(w.timeout, func() { w.warn(pod, meant) })
	}
}

// warn records the event, unless the pod was taken or is gone.
func (w *schedulerNames) warn(pod *corev1.Pod, meant string) {
	select {
	case <-w.done:
		return // the recorder is shut down
	default:
	}
	w.mu.Lock()
	_, served := w.served[pod.Spec.SchedulerName]
	w.mu.Unlock()
	now, err := w.pods.Pods(pod.Namespace).Get(pod.Name)
	if served || err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil || WasTaken(now) {
		return
	}
	w.recorders[meant].Eventf(now, nil, corev1.EventTypeWarning, ReasonSchedulerName, actionScheduling, "%s", messages.Cut(fmt.Sprintf(
		"spec.schedulerName: no scheduler handles %q; did you mean %q? Recreate the pod: schedulerName is immutable",
		pod.Spec.SchedulerName, meant)))
}

// meant returns the profile that the name is a typo of, or "".
func (w *schedulerNames) meant(name string) string {
	return MeantSchedulerName(name, maps.Keys(w.recorders))
}

// MeantSchedulerName returns the profile that the given name is a typo of, or "".
func MeantSchedulerName(name string, profiles iter.Seq[string]) string {
	if name == corev1.DefaultSchedulerName {
		return ""
	}
	best, distance := "", messages.Typo+1
	for profile := range profiles {
		if profile == name {
			return ""
		}
		d := messages.Distance(strings.ToLower(name), strings.ToLower(profile), messages.Typo)
		if d < distance || d == distance && profile < best {
			best, distance = profile, d
		}
	}
	if distance > messages.Typo {
		return ""
	}
	return best
}

// WasTaken reports whether some scheduler has looked at the pod, or it has a node.
func WasTaken(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" || WasTried(pod) }

// WasTried reports whether some scheduler has written a result to the pod. The API server
// writes the condition of a pod with scheduling gates.
func WasTried(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Reason != corev1.PodReasonSchedulingGated {
			return true
		}
	}
	return false
}
