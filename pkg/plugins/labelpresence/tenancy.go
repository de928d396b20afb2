// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// tenancy is args.tenancy, compiled. It looks at two labels, the node's and the
// namespace's, and at nothing that the author of a pod can write.
type tenancy struct {
	nodeLabelKey      string
	namespaceLabelKey string
	confined          bool
	exemptNamespaces  sets.Set[string]

	// The three ways to be refused. None of them tells the value of another
	// tenant's label: the reason ends up in an event in the pod's namespace.
	noTenant    *refusal // the node has a tenant, the namespace has none
	otherTenant *refusal // both have one, and they differ
	unconfined  *refusal // the namespace has a tenant, the node has none
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

// newTenancy compiles args.tenancy; nil stays nil.
func newTenancy(args *config.LabelPresenceTenancy, counter metrics.CounterMetric) *tenancy {
	if args == nil {
		return nil
	}
	newRefusal := func(format string, keys ...any) *refusal {
		return &refusal{reason: fmt.Sprintf(format, keys...), counter: counter}
	}
	return &tenancy{
		nodeLabelKey:      args.NodeLabelKey,
		namespaceLabelKey: args.NamespaceLabelKey,
		confined:          args.Tenants == config.TenantsConfined,
		exemptNamespaces:  sets.New(args.ExemptNamespaces...),
		noTenant: newRefusal("node(s) had label %q of a tenant, and the pod's namespace has no label %q",
			args.NodeLabelKey, args.NamespaceLabelKey),
		otherTenant: newRefusal("node(s) had label %q of another tenant than the pod's namespace has in label %q",
			args.NodeLabelKey, args.NamespaceLabelKey),
		unconfined: newRefusal("node(s) didn't have label %q of the tenant that the pod's namespace has in label %q",
			args.NodeLabelKey, args.NamespaceLabelKey),
	}
}

// governs reports whether tenancy has a say about the pods of a namespace.
func (t *tenancy) governs(namespace string) bool {
	return t != nil && !t.exemptNamespaces.Has(namespace)
}

// refuse returns why a node with these labels is refused to the pods of owner,
// the tenant of their namespace, or nil.
func (t *tenancy) refuse(nodeLabels map[string]string, owner tenant) *refusal {
	node := tenantOf(nodeLabels, t.nodeLabelKey)
	switch {
	case node == owner:
		return nil
	case !node.exists:
		if t.confined {
			return t.unconfined
		}
		return nil
	case !owner.exists:
		return t.noTenant
	default:
		return t.otherTenant
	}
}
