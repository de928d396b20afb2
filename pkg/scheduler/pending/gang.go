// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// The framework hands on nothing of a rejection but its text. What a gang's member
// is told on the way is therefore written and read here, side by side.
const (
	gangReasonFormat = "%d member(s) of its gang "
	gangReasonOther  = "had a node and all are needed"
	gangReasonThis   = "had a node when this one found none"
)

// GangReason is the reason for which a member of a gang is rejected whose gang has
// no room. found is how many members had a node when it was given up, because this
// one or another one found none.
func GangReason(found int, this bool) string {
	if this {
		return fmt.Sprintf(gangReasonFormat, found) + gangReasonThis
	}
	return fmt.Sprintf(gangReasonFormat, found) + gangReasonOther
}

// GangNotFound says that there is no PodGroup, NAMESPACE/NAME, of the name that the label
// of the pod has.
func GangNotFound(gang, label string) string {
	return fmt.Sprintf("PodGroup %s, which the pod's label %s names, does not exist: correct the label or create it", gang, label)
}

// GangIncomplete says that a gang, NAMESPACE/NAME, has fewer members than it needs.
func GangIncomplete(gang string, members int, needed int64) string {
	return fmt.Sprintf("gang %s: %d of its %d members exist, and it starts when all do", gang, members, needed)
}

// parseGangReason is the reverse of GangReason.
func parseGangReason(text string) (found int, this, ok bool) {
	if n, err := fmt.Sscanf(text, gangReasonFormat, &found); err != nil || n != 1 {
		return 0, false, false
	}
	this = strings.HasSuffix(text, gangReasonThis)
	return found, this, this || strings.HasSuffix(text, gangReasonOther)
}

func isGangReason(text string) bool {
	_, _, ok := parseGangReason(text)
	return ok
}

// What was tried. A member of a gang is nearly always first refused because the
// others are not created yet, and the API keeps the first text of a series of equal
// events: another action is another event, so that the text is the newest cause.
const (
	actionScheduling  = "Scheduling"
	actionFindGang    = "FindingPodGroup"
	actionGatherGang  = "GatheringGang"
	actionPlaceGang   = "PlacingGang"
	actionPlaceMember = "PlacingMember"
)

// gangHeadline is about the pod's gang: it names the PodGroup and says how many of
// its members are there, or how many found a node. It returns "" for a pod of no
// gang, and where the gang is not what keeps the pod waiting.
func (e *Explainer) gangHeadline(m *message) (text, action string) {
	if e.Gangs == nil {
		return "", ""
	}
	name := m.pod.Labels[e.Gangs.Label]
	if name == "" {
		return "", ""
	}
	gang := m.pod.Namespace + "/" + name
	byGang := m.fit.Diagnosis.UnschedulablePlugins.Has(e.Gangs.Plugin)
	needed, err := e.minMember(m.pod.Namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		if byGang {
			m.reasons = nil // "PodGroup not found"
		}
		m.elsewhere = true // no room makes up for it
		return GangNotFound(gang, e.Gangs.Label), actionFindGang
	case err != nil:
		return "", ""
	}
	members, bound := e.members(m.pod.Namespace, name)
	found, this, gaveUp := m.gangReason()
	m.removeReasons(isGangReason)
	switch {
	case byGang && int64(members) < needed:
		m.refused = "" // it says the same, of the pod
		m.elsewhere = true
		return GangIncomplete(gang, members, needed), actionGatherGang
	case gaveUp && this:
		return fmt.Sprintf("gang %s: %d of its %d members %s", gang, found+bound, needed, gangReasonThis), actionPlaceMember
	case gaveUp:
		return fmt.Sprintf("gang %s: %d of its %d members %s", gang, found+bound, needed, gangReasonOther), actionPlaceGang
	case !byGang:
		return "", ""
	}
	return fmt.Sprintf("gang %s: its %d members start together or not at all", gang, needed), actionPlaceGang
}

// gangReason finds how many members found a node, in what the pod was rejected for
// while it waited, or in what the gang's plugin answered after it found no node.
func (m *message) gangReason() (found int, this, ok bool) {
	texts, _ := m.postFilterMessages()
	for _, r := range m.reasons {
		texts = append(texts, r.text)
	}
	if i := slices.IndexFunc(texts, isGangReason); i >= 0 {
		return parseGangReason(texts[i])
	}
	return 0, false, false
}

// members returns how many pods of the gang there are, and how many of them have a
// node for good.
func (e *Explainer) members(namespace, name string) (members, bound int) {
	pods, err := e.pods.Pods(namespace).List(labels.SelectorFromSet(labels.Set{e.Gangs.Label: name}))
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
func (e *Explainer) minMember(namespace, name string) (int64, error) {
	object, err := e.Gangs.PodGroups.ByNamespace(namespace).Get(name)
	if err != nil {
		return 0, err
	}
	group, ok := object.(*unstructured.Unstructured)
	if !ok {
		return 0, fmt.Errorf("want PodGroup %s/%s as *unstructured.Unstructured, got %T", namespace, name, object)
	}
	needed, _, err := unstructured.NestedInt64(group.Object, "spec", "minMember")
	return needed, err
}
