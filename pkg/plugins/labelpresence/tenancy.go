// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// tenancy is args.tenancy, compiled. It looks at the node's label and taint, and
// at the namespace's name and label, and at nothing that the author of a pod can
// write. The package comment states what it keeps.
type tenancy struct {
	nodeLabelKey      string
	nodeTaintKey      string
	namespaceLabelKey string
	confined          bool
	exemptNamespaces  sets.Set[string]

	// The four ways to be rejected. None of them shows the value of another
	// tenant's label: the reason ends up in an event in the pod's namespace.
	noTenant      *rejection // the node belongs to a tenant, the namespace has none
	unknownTenant *rejection // the namespace has a tenant, and it is not known whether the node is that one's
	otherTenant   *rejection // both have one, and they differ
	unconfined    *rejection // the namespace has a tenant, the node is shared

	// What the owner of a pod reads where no node is left, without and with a tenant. It
	// is the same whether there are others' nodes or none.
	noSharedNode, noOwnNode string
}

// tenant is the value of a tenant label. The empty value is a tenant too; only
// an absent label is none.
type tenant struct {
	name   string
	exists bool
}

func tenantOf(labels map[string]string, key string) tenant {
	name, exists := labels[key]
	return tenant{name: name, exists: exists}
}

// newTenancy compiles args.tenancy; nil stays nil. The reasons name the profile,
// because its administrator is who can change something.
func newTenancy(args *config.LabelPresenceTenancy, profile string, counter metrics.CounterMetric) *tenancy {
	if args == nil {
		return nil
	}
	newReason := func(format string, keys ...any) string {
		reason := fmt.Sprintf(format, keys...) + fmt.Sprintf(" (tenancy of profile %q: ask the administrator who assigns nodes and namespaces to tenants)", profile)
		return messages.Escape(reason)
	}
	newRejection := func(format string, keys ...any) *rejection {
		return &rejection{reason: newReason(format, keys...), counter: counter}
	}
	orShared := ""
	if args.Tenants == config.TenantsFree {
		orShared = "is shared or "
	}
	return &tenancy{
		nodeLabelKey:      args.NodeLabelKey,
		nodeTaintKey:      args.NodeTaintKey,
		namespaceLabelKey: args.NamespaceLabelKey,
		confined:          args.Tenants == config.TenantsConfined,
		exemptNamespaces:  sets.New(args.ExemptNamespaces...),
		noTenant: newRejection("node(s) belonged to a tenant (label %q or taint %q), and the pod's namespace has no label %q",
			args.NodeLabelKey, args.NodeTaintKey, args.NamespaceLabelKey),
		unknownTenant: newRejection("node(s) belonged to a tenant that is not known (taint %q, and no label %q that agrees with it)",
			args.NodeTaintKey, args.NodeLabelKey),
		otherTenant: newRejection("node(s) had label %q, which names another tenant than label %q of the pod's namespace",
			args.NodeLabelKey, args.NamespaceLabelKey),
		unconfined: newRejection("node(s) didn't have label %q of the tenant that the pod's namespace has in label %q",
			args.NodeLabelKey, args.NamespaceLabelKey),
		noSharedNode: newReason("no node accepts pods from namespaces without label %q: any that exist belong to a tenant (label %q or taint %q)",
			args.NamespaceLabelKey, args.NodeLabelKey, args.NodeTaintKey),
		noOwnNode: newReason("no node %sbelongs to the tenant named by namespace label %q (node label %q, and no taint %q with another value)",
			orShared, args.NamespaceLabelKey, args.NodeLabelKey, args.NodeTaintKey),
	}
}

// appliesTo reports whether tenancy has a say about the pods of a namespace.
func (t *tenancy) appliesTo(namespace string) bool {
	return t != nil && !t.exemptNamespaces.Has(namespace)
}

// ownership is what a node says about whose it is.
type ownership struct {
	// tenant is whose the node is. It does not exist if the node is shared.
	tenant tenant
	// unknown is whether the node belongs to a tenant, but does not say to which.
	unknown bool
}

// ownershipOf reads the node's label and taint. It allocates nothing.
func (t *tenancy) ownershipOf(node *corev1.Node) ownership {
	owner := ownership{tenant: tenantOf(node.Labels, t.nodeLabelKey)}
	for i := range node.Spec.Taints {
		// By index and by pointer: Filter runs this for every node of every pod.
		taint := &node.Spec.Taints[i]
		if taint.Key != t.nodeTaintKey {
			continue
		}
		if !owner.tenant.exists || taint.Value != "" && taint.Value != owner.tenant.name {
			owner.unknown = true
		}
	}
	return owner
}

// reject returns why the node is rejected to the pods of owner, the tenant of
// their namespace, or nil.
func (t *tenancy) reject(node *corev1.Node, owner tenant) *rejection {
	whose := t.ownershipOf(node)
	switch {
	case !owner.exists && (whose.unknown || whose.tenant.exists):
		return t.noTenant
	case whose.unknown:
		return t.unknownTenant
	case whose.tenant == owner:
		return nil
	case whose.tenant.exists:
		return t.otherTenant
	case t.confined:
		return t.unconfined
	default:
		return nil
	}
}

// visibleTo returns which nodes the owners of the pods of a tenant may know of: those that
// tenancy does not keep from them.
func (t *tenancy) visibleTo(owner tenant) plugin.VisibleNodes {
	return func(node *corev1.Node) bool { return t.reject(node, owner) == nil }
}

// noNode is what the owner of a pod reads if tenancy keeps all nodes from it.
func (t *tenancy) noNode(owner tenant) string {
	if owner.exists {
		return t.noOwnNode
	}
	return t.noSharedNode
}

// violation is what tenancy says against a pod of owner that runs on the node:
// as reject, but a node whose tenant is not known may be the pod's.
func (t *tenancy) violation(node *corev1.Node, owner tenant) *rejection {
	if rejected := t.reject(node, owner); rejected != t.unknownTenant {
		return rejected
	}
	return nil
}

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

// CheckOrder returns what keeps tenancy from working in a profile that runs the plugin, whose
// plugins are at path. It has to be the first in PreFilter and in Filter: what another plugin
// says about a node that tenancy keeps from the pod would reach the pod's owner, and
// preemption would try that node. multiPoint alone puts the default plugins first.
func CheckOrder(path *field.Path, running *schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	for _, point := range []struct {
		name    string
		enabled []schedconfig.Plugin
	}{{"preFilter", running.PreFilter.Enabled}, {"filter", running.Filter.Enabled}} {
		if first := point.enabled[0].Name; first != Name {
			errs = append(errs, field.Invalid(path.Child(point.name, "enabled"), first, fmt.Sprintf(
				"runs before %s, and with tenancy its messages would name the nodes of other tenants: list %s first under %s.enabled, as well as under multiPoint.enabled",
				Name, Name, point.name)))
		}
	}
	return errs
}
