// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// groupWaits is what GangScheduling answers for a member that has a place while its
	// PodGroup has too few: the scheduler hands it on when it has given the group up.
	groupWaits = "waiting for minCount pods from a gang to be scheduled"
	// groupPreempts is what DefaultPreemption answers for a member: the group preempts as
	// a whole, and its condition PodGroupScheduled says what became of that.
	groupPreempts = preemptionPrefix + "not eligible due to workload aware preemption enabled"
)

// explainGroup returns the status of a member of one of Kubernetes' own gangs that had a
// place, in words that say what it waits for; any other status as it is.
func explainGroup(pod *corev1.Pod, status *fwk.Status) *fwk.Status {
	group := pod.Spec.SchedulingGroup
	waits := func(reason string) bool { return strings.HasPrefix(reason, groupWaits) }
	if group == nil || group.PodGroupName == nil || !slices.ContainsFunc(status.Reasons(), waits) {
		return status
	}
	text := "this pod had a place, but fewer members of PodGroup " + klog.KRef(pod.Namespace, *group.PodGroupName).String() +
		" had than its minCount: the events of the others say why"
	return fwk.NewStatus(status.Code(), text).WithError(status.AsError())
}
