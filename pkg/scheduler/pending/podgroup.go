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
	// groupWaits is what GangScheduling of Kubernetes 1.36 answers for a member that fits while
	// too few others do. The scheduler passes it on when it gives the group up.
	groupWaits = "waiting for minCount pods from a gang to be scheduled"
	// groupShort begins GangScheduling's reason to give a group up, from 1.37 on, and
	// groupCounts ends it. A member that fits gets all of the group's reasons as one; one
	// that was not tried any more gets them as they are.
	groupShort  = "minCount ("
	groupCounts = " remaining"
	// groupPreempts is what DefaultPreemption answers for a member: preemption is for the
	// whole group, whose condition PodGroupScheduled has the result.
	groupPreempts = preemptionPrefix + "not eligible due to workload aware preemption enabled"
)

// explainGroup rewrites the status of a member of one of Kubernetes' own gangs that fits or
// was not tried: it says what the member waits for. Any other status stays as it is. redact
// is whether nodes are hidden from the pod's owner: the group's result depends on them.
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
		text = "this pod would fit, but too few other members of PodGroup " + name + " do: see their events"
	case slices.ContainsFunc(status.Reasons(), notTried):
		text = "too few members of PodGroup " + name + " fit: see the events of the others"
	case redact && status.IsRejected():
		text = "the members of PodGroup " + name + " don't all fit"
	default:
		return status
	}
	return fwk.NewStatus(status.Code(), text).WithError(status.AsError())
}
