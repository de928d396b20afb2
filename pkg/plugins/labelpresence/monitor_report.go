// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/eventnote"
)

const (
	// reasonTenancyViolation is the reason of the event on a pod that is on a node
	// where tenancy does not allow it.
	reasonTenancyViolation = "TenancyViolation"
	// actionTenancyCheck is the event's action: what the scheduler was doing.
	actionTenancyCheck = "CheckingTenancy"
)

// reportViolation records the event on the pod. The recorder takes it without
// waiting and may drop it under load; the gauge is complete in any case.
func (pl *LabelPresence) reportViolation(v violation) {
	recorder := pl.handle.EventRecorder()
	if recorder == nil {
		return // a simulation
	}
	note := violationNote(pl.policy.tenancy, v)
	recorder.Eventf(v.pod, v.node, corev1.EventTypeWarning, reasonTenancyViolation, actionTenancyCheck, "%s", note)
}

// violationNote says what is wrong and what can be done. Like the reasons, it
// does not tell the name of another tenant to the pod's namespace.
func violationNote(t *tenancy, v violation) string {
	var what string
	switch v.reason {
	case t.noTenant:
		what = fmt.Sprintf("Node %q belongs to a tenant (label %q or taint %q), and namespace %q has none (no label %q).",
			v.node.Name, t.nodeLabelKey, t.nodeTaintKey, v.pod.Namespace, t.namespaceLabelKey)
	case t.otherTenant:
		what = fmt.Sprintf("Node %q belongs to another tenant (label %q) than namespace %q (label %q).",
			v.node.Name, t.nodeLabelKey, v.pod.Namespace, t.namespaceLabelKey)
	default:
		what = fmt.Sprintf("Node %q belongs to no tenant (no label %q), and namespace %q does (label %q).",
			v.node.Name, t.nodeLabelKey, v.pod.Namespace, t.namespaceLabelKey)
	}
	return eventnote.Cut(what + " The pod keeps running: delete it to have it placed anew, correct the label that is wrong, or exempt the namespace in LabelPresenceArgs.tenancy.exemptNamespaces.")
}
