// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

const (
	// groupWaits is what GangScheduling of Kubernetes 1.36 answers for a member that has a
	// place while its PodGroup has too few: the scheduler hands it on when it has given the
	// group up.
	groupWaits = "waiting for minCount pods from a gang to be scheduled"
	// groupShort begins GangScheduling's reason to give a group up, from 1.37 on, which
	// groupCounts ends. A member that had a place gets all of the group's reasons as one;
	// one that was not tried any more gets them as they are.
	groupShort  = "minCount ("
	groupCounts = " remaining"
	// groupPreempts is what DefaultPreemption answers for a member: the group preempts as
	// a whole, and its condition PodGroupScheduled says what became of that.
	groupPreempts = preemptionPrefix + "not eligible due to workload aware preemption enabled"
)

// explainGroup returns the status of a member of one of Kubernetes' own gangs that had a
// place or was not tried, in words that say what it waits for; any other status as it is.
// redact is whether the owner of the pod may not know of all nodes: what was tried for the
// group depends on them.
func explainGroup(pod *corev1.Pod, status *fwk.Status, redact bool) *fwk.Status {
	group := podgroup.Of(pod)
	if !group.Native {
		return status
	}
	hadPlace := func(reason string) bool {
		return strings.HasPrefix(reason, groupWaits) || strings.Contains(reason, groupShort) && strings.Contains(reason, groupCounts+", ")
	}
	notTried := func(reason string) bool {
		return strings.HasPrefix(reason, groupShort) && strings.HasSuffix(reason, groupCounts)
	}
	name := group.String()
	var text string
	switch {
	case slices.ContainsFunc(status.Reasons(), hadPlace):
		text = "this pod had a place, but fewer members of PodGroup " + name + " had than its minCount: the events of the others say why"
	case slices.ContainsFunc(status.Reasons(), notTried):
		text = "fewer members of PodGroup " + name + " can have a place than its minCount: the events of the others say why"
	case redact && status.IsRejected():
		text = "the members of PodGroup " + name + " can't all have a place"
	default:
		return status
	}
	return fwk.NewStatus(status.Code(), text).WithError(status.AsError())
}
