// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// The author of a pod learns nothing about the nodes that tenancy keeps from the pod: not
// why they were rejected, nor how many there are, nor whether there are any. The message of
// a failed attempt describes the other nodes alone, as if the cluster had no more.

// notCounted follows the reasons of the nodes of a view, whether there are others or not.
const notCounted = "; nodes that tenancy keeps from the pod are not counted"

// view returns what the owner of the pod may know of; nil if that is all.
func (e *Explainer) view(pod *corev1.Pod) *shortfall.View {
	for _, plugin := range e.Measuring[pod.Spec.SchedulerName] {
		if viewer, ok := plugin.(shortfall.Viewer); ok {
			if view := viewer.View(pod); view != nil {
				return view
			}
		}
	}
	return nil
}

// seenIn returns the FitError as it would be if the cluster had the nodes of the view alone,
// but for the plugins that rejected the pod, by which the scheduler decides when to try
// again, and for what the PostFilter plugins answered.
func seenIn(view *shortfall.View, fw framework.Framework, pod *corev1.Pod, fit *framework.FitError) *framework.FitError {
	if view == nil || pod.Spec.NodeName != "" {
		return fit // the pod had a node, and the error is about that one
	}
	snapshot := fw.SnapshotSharedLister().NodeInfos()
	statuses := framework.NewNodeToStatus(map[string]*fwk.Status{}, fit.Diagnosis.NodeToStatus.AbsentNodesStatus())
	fit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		if info, err := snapshot.Get(name); err == nil && view.Sees(info.Node()) {
			statuses.Set(name, status)
		}
	})
	seen := *fit
	seen.Diagnosis.NodeToStatus, seen.NumAllNodes = statuses, statuses.Len()
	if fit.Diagnosis.NodeToStatus.Len() < fit.NumAllNodes {
		// If the attempt was about a part of the nodes only, as those of a PodGroup may be,
		// it is not known which: nodes without a status of their own are then left out.
		if count, all := countSeen(view, fw); all == fit.NumAllNodes {
			seen.NumAllNodes = count
		}
	}
	if seen.NumAllNodes == 0 {
		// What plugins said of the pod is left out too: in a cluster without nodes no plugin
		// is asked.
		seen.Diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
		seen.Diagnosis.PreFilterMsg, seen.Diagnosis.PostFilterMsg = view.Empty, ""
	}
	return &seen
}

// countSeen returns how many nodes there are in the view, and in all.
func countSeen(view *shortfall.View, fw framework.Framework) (seen, all int) {
	nodes, err := fw.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, 0
	}
	for _, info := range nodes {
		if view.Sees(info.Node()) {
			seen++
		}
	}
	return seen, len(nodes)
}

// preemptionUseless is DefaultPreemption's reason for the nodes on which it did not try to
// evict pods, behind their number. All nodes outside of a view are among them.
const preemptionUseless = " Preemption is not helpful for scheduling"

// preemptionSeenIn returns what DefaultPreemption answered, with the counts of the view; ""
// if the answer is about nodes outside of it.
func preemptionSeenIn(view *shortfall.View, fw framework.Framework, answer string) string {
	head, list, found := strings.Cut(answer, " nodes are available: ")
	if !found || !strings.HasPrefix(head, preemptionPrefix+"0/") {
		return answer // it is about the pod, or about the node that was found
	}
	seen, all := countSeen(view, fw)
	useless := 0
	reasons := slices.DeleteFunc(strings.Split(strings.TrimSuffix(list, "."), ", "), func(reason string) bool {
		number, ok := strings.CutSuffix(reason, preemptionUseless)
		if n, err := strconv.Atoi(number); ok && err == nil {
			useless = n
		}
		return ok
	})
	if useless -= all - seen; useless < 0 {
		return ""
	}
	if useless > 0 {
		// The last: the framework sorts the reasons by their text, which begins with the number.
		reasons = append(reasons, strconv.Itoa(useless)+preemptionUseless)
	}
	return fmt.Sprintf("%s0/%d nodes are available: %s.", preemptionPrefix, seen, strings.Join(reasons, ", "))
}
