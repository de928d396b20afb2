// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
)

// retriesWithin is the longest pause after which a controller of Kubernetes tries again to
// create what was refused; an event that is older may be about what was mended since.
const retriesWithin = 20 * time.Minute

// told are the events from which a finding is made: what schedulers have seen, which may be
// more than the objects still show, and which pods were never created.
var told = []struct {
	reason string
	// decided says that the objects show whether what the event reports is still so, so that
	// the event itself is no more than a hint; nil for never.
	decided func(*checker, *corev1.Event) bool
	// ours says that only a scheduler of Berth reports it.
	ours bool
	// keep says whether an event of the reason is a finding; nil for all.
	keep   func(*checker, *corev1.Event) bool
	wayOut string
}{
	{reason: "TenancyViolation", ours: true, decided: (*checker).knowsTenants, keep: (*checker).isPlaced, wayOut: "delete the pod so that it is placed again, or correct the wrong label"},
	{reason: "GPUDeviceConflict", ours: true, decided: (*checker).knowsDevices, wayOut: "find out what else gives devices of this node (a second scheduler with GPUDevice, or a record that was changed), and delete one of the pods"},
	{reason: "GPUPodNotFenced", ours: true, keep: (*checker).isPending, wayOut: "delete the pod and create a smaller one, or see why the API server refuses to update it"},
	{reason: "FailedCreate", keep: (*checker).isRefusedHere, wayOut: "change the pod template as the policy's message says"},
}

// checkEvents finds what events report.
func (c *checker) checkEvents() {
	for _, kind := range told {
		list, err := c.client.CoreV1().Events(metav1.NamespaceAll).List(c.ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("reason", kind.reason).String()})
		if c.options.Files != nil && apierrors.IsForbidden(err) {
			return // manifests have none
		}
		if !c.seen("events", err) {
			return
		}
		for i := range list.Items {
			event := &list.Items[i]
			if event.Reason != kind.reason || kind.ours && !c.isOurs(event) || kind.keep != nil && !kind.keep(c, event) {
				continue
			}
			of, severity, wayOut := event.InvolvedObject, Error, kind.wayOut
			if of.Kind == "Pod" && c.podOf(event) == nil {
				severity = Warning // it has happened, and ended
			} else if kind.decided != nil && kind.decided(c, event) {
				severity, wayOut = Warning, "if no error is reported for the pod or its node, the problem is resolved; otherwise "+wayOut
			}
			c.found(Finding{
				severity, fmt.Sprintf("%s %s/%s", of.Kind, of.Namespace, of.Name), "",
				fmt.Sprintf("event %s, %s ago: %s", event.Reason, c.now().Sub(lastTime(event)).Round(time.Second), strings.TrimSuffix(event.Message, ".")), wayOut,
			})
		}
	}
}

// isOurs reports whether an event says that a scheduler of Berth has written it: that is a
// profile, by its name. Who may write events can claim that, but everybody else is left out. Where
// leases are not seen, anybody could be one.
func (c *checker) isOurs(event *corev1.Event) bool {
	if c.reporter(event) != nil {
		return true
	}
	leases, seen := c.listLeases()
	return !seen || slices.ContainsFunc(leases, func(l coordinationv1.Lease) bool {
		return slices.Contains(lease.Serves(ptr.Deref(l.Spec.HolderIdentity, "")), event.ReportingController)
	})
}

// reporter returns the scheduler that wrote an event, if its profile is known.
func (c *checker) reporter(event *corev1.Event) *runningScheduler {
	for _, s := range c.schedulers {
		if slices.Contains(s.profile.Names(), event.ReportingController) {
			return s
		}
	}
	return nil
}

// knowsTenants reports whether checkPlaced has looked at the pod of an event, with the
// tenancy of its reporter.
func (c *checker) knowsTenants(event *corev1.Event) bool {
	return c.knowsDevices(event) && c.objects.Has("namespaces") && c.reporter(event) != nil
}

// knowsDevices reports whether checkDevices has looked at the node of an event's pod.
func (c *checker) knowsDevices(*corev1.Event) bool {
	return c.objects.Has("nodes") && c.objects.Has("pods") && c.objects.ListedIn("pods") == ""
}

// lastTime is when an event happened last.
func lastTime(event *corev1.Event) time.Time {
	last := event.LastTimestamp.Time
	for _, at := range []time.Time{event.EventTime.Time, event.FirstTimestamp.Time, event.CreationTimestamp.Time} {
		if last.IsZero() {
			last = at
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
}

// podOf returns the pod that an event is about, if it is still there.
func (c *checker) podOf(event *corev1.Event) *corev1.Pod {
	for _, pod := range c.objects.Pods() {
		if pod.Namespace == event.InvolvedObject.Namespace && pod.Name == event.InvolvedObject.Name && (event.InvolvedObject.UID == "" || pod.UID == event.InvolvedObject.UID) {
			return pod
		}
	}
	return nil
}

func (c *checker) isPlaced(event *corev1.Event) bool {
	pod := c.podOf(event)
	return pod != nil && pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod)
}

func (c *checker) isPending(event *corev1.Event) bool {
	pod := c.podOf(event)
	return pod != nil && waits(pod)
}

// isRefusedHere reports whether an event is about pods that a policy of Berth keeps from
// being created, and their workload still lacks some.
func (c *checker) isRefusedHere(event *corev1.Event) bool {
	if !strings.Contains(event.Message, "AdmissionPolicy 'berth-") || c.now().Sub(lastTime(event)) > retriesWithin {
		return false
	}
	of := event.InvolvedObject
	switch of.Kind {
	case "DaemonSet":
		set, err := c.client.AppsV1().DaemonSets(of.Namespace).Get(c.ctx, of.Name, metav1.GetOptions{})
		return !apierrors.IsNotFound(err) && (err != nil || set.Status.DesiredNumberScheduled == 0 || set.Status.CurrentNumberScheduled < set.Status.DesiredNumberScheduled)
	case "ReplicaSet":
		set, err := c.client.AppsV1().ReplicaSets(of.Namespace).Get(c.ctx, of.Name, metav1.GetOptions{})
		return !apierrors.IsNotFound(err) && (err != nil || set.Spec.Replicas == nil || set.Status.Replicas < *set.Spec.Replicas)
	}
	return true
}
