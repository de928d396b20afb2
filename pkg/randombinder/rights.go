// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/preflight"
)

// rights returns what the API server must let the binder do.
func (o *Options) rights() []preflight.Right {
	rights := preflight.Expand(preflight.Right{Resource: "nodes", Why: "without it no node is ever eligible"}, "list", "watch")
	for _, ns := range o.podNamespaces() {
		rights = append(rights, preflight.Expand(preflight.Right{
			Resource: "pods", Namespace: ns, Why: "without it no pod is seen",
		}, "list", "watch")...)
	}
	own := o.Namespaces
	if len(own) == 0 {
		own = []string{metav1.NamespaceAll}
	}
	for _, ns := range own {
		rights = append(rights,
			preflight.Right{Verb: "get", Resource: "pods", Namespace: ns, Why: "without it a Binding in conflict cannot be resolved"},
			preflight.Right{Verb: "create", Resource: "pods", Subresource: "binding", Namespace: ns, Why: "without it no pod is bound"},
			preflight.Right{Verb: "patch", Resource: "pods", Subresource: "status", Namespace: ns, Why: "without it a pod does not say why it is pending"},
		)
		rights = append(rights, preflight.Expand(preflight.Right{
			Group: "events.k8s.io", Resource: "events", Namespace: ns, Why: "without it a pod's events are missing",
		}, "create", "patch")...)
	}
	if le := o.LeaderElection; le.LeaderElect {
		lease := preflight.Right{
			Group: "coordination.k8s.io", Resource: "leases", Namespace: le.ResourceNamespace, Name: le.ResourceName,
			Why: "without it this process never leads (or run one replica with --leader-elect=false)",
		}
		rights = append(rights, preflight.Expand(lease, "get", "update")...)
		// A create cannot be granted by name.
		lease.Name = ""
		rights = append(rights, preflight.Expand(lease, "create")...)
	}
	if o.SecureServing.BindPort != 0 {
		rights = append(rights, preflight.ServingRights(true)...)
	}
	return slices.Clip(rights)
}
