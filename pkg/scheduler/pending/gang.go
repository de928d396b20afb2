// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

const (
	gangReasonOther = "had a node and all are needed"
	gangReasonThis  = "had a node when this one found none"
)

// GangNotFound says that the PodGroup, NAMESPACE/NAME, that the pod's label names does not
// exist.
func GangNotFound(gang, label string) string {
	return fmt.Sprintf("PodGroup %s, which the pod's label %s names, does not exist: correct the label or create it", gang, label)
}

// GangIncomplete says that a gang, NAMESPACE/NAME, has fewer members than it needs.
func GangIncomplete(gang string, members int, needed int64) string {
	return fmt.Sprintf("gang %s: %d of its %d members exist; it starts when all of them do", gang, members, needed)
}

// Actions of events. A member of a gang is nearly always rejected first because the others
// are not created yet, and the API keeps the first text of a series of equal events. Another
// action is another event, so that the text has the newest cause.
const (
	actionScheduling  = "Scheduling"
	actionFindGang    = "FindingPodGroup"
	actionGatherGang  = "GatheringGang"
	actionPlaceGang   = "PlacingGang"
	actionPlaceMember = "PlacingMember"
)

// gangHeadline is about the pod's gang: it names the PodGroup and says how many of its
// members exist, or how many found a node. It returns "" for a pod without a gang, and where
// the gang is not why the pod is Pending.
func (e *Explainer) gangHeadline(m *message) (text, action string) {
	if e.Gangs == nil {
		return "", ""
	}
	group := podgroup.Of(m.pod)
	if group.Name == "" || group.Native {
		return "", ""
	}
	gang := group.String()
	byGang := m.fit.Diagnosis.UnschedulablePlugins.Has(e.Gangs.Plugin)
	needed, err := e.minMember(group)
	switch {
	case apierrors.IsNotFound(err):
		if byGang {
			m.reasons = nil // "PodGroup not found"
		}
		m.elsewhere = true // no room makes up for it
		return GangNotFound(gang, podgroup.Label), actionFindGang
	case err != nil:
		return "", ""
	}
	members, bound := e.members(group)
	found, this, gaveUp := e.Gangs.GaveUp(m.pod)
	if gaveUp && m.waitedOnPermit {
		m.reasons = nil // the headline says it better
	}
	had := fmt.Sprintf("gang %s: %d of its %d members ", gang, found+bound, needed)
	switch {
	case byGang && int64(members) < needed:
		m.refused = "" // it says the same, of the pod
		m.elsewhere = true
		return GangIncomplete(gang, members, needed), actionGatherGang
	case gaveUp && this:
		return had + gangReasonThis, actionPlaceMember
	case gaveUp:
		return had + gangReasonOther, actionPlaceGang
	case !byGang:
		return "", ""
	}
	return fmt.Sprintf("gang %s: its %d members start together or not at all", gang, needed), actionPlaceGang
}

// members returns how many pods of the gang there are, and how many of them have a
// node for good.
func (e *Explainer) members(group podgroup.Ref) (members, bound int) {
	pods, err := e.pods.Pods(group.Namespace).List(labels.SelectorFromSet(labels.Set{podgroup.Label: group.Name}))
	if err != nil {
		return 0, 0
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	return len(pods), bound
}

// minMember returns how many members the PodGroup wants at least. The error is
// NotFound if there is none.
func (e *Explainer) minMember(ref podgroup.Ref) (int64, error) {
	object, err := e.Gangs.PodGroups.ByNamespace(ref.Namespace).Get(ref.Name)
	if err != nil {
		return 0, err
	}
	group, ok := object.(*unstructured.Unstructured)
	if !ok {
		return 0, fmt.Errorf("want PodGroup %s as *unstructured.Unstructured, got %T", ref, object)
	}
	needed, _, err := unstructured.NestedInt64(group.Object, "spec", "minMember")
	return needed, err
}
