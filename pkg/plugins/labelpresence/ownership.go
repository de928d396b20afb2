// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// Ownership says of a node what tenancy makes of its label and taint: whether it belongs
// to a tenant that is known, and whether it belongs to one that is not, so that it takes
// pods of exempt namespaces only.
func Ownership(args *config.LabelPresenceTenancy, node *corev1.Node) (known, unknown bool) {
	t := &tenancy{nodeLabelKey: args.NodeLabelKey, nodeTaintKey: args.NodeTaintKey}
	owner := t.ownershipOf(node)
	return owner.tenant.exists && !owner.unknown, owner.unknown
}

// Violation says why tenancy does not allow a pod of the namespace on the node; it is empty if
// tenancy allows it, or has no say.
func Violation(args *config.LabelPresenceTenancy, node *corev1.Node, namespace *corev1.Namespace) string {
	t := newTenancy(args, "", nil)
	if !t.appliesTo(namespace.Name) {
		return ""
	}
	reason := t.violation(node, tenantOf(namespace.Labels, t.namespaceLabelKey))
	if reason == nil {
		return ""
	}
	return t.describe(reason, node.Name, namespace.Name)
}
