// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

// proposeRuleLabels proposes to add the labels that rules of LabelPresence require to a node,
// and to remove those that they forbid.
func proposeRuleLabels(s *situation, add func(*Change)) {
	args, ok := argsOf[*config.LabelPresenceArgs](s.in, s.pod.Spec.SchedulerName)
	if !ok {
		return
	}
	for _, n := range s.near() {
		if _, ok := n.has(labelpresence.Name); !ok {
			continue
		}
		var keys []string
		values := map[string]*string{}
		for i := range args.Rules {
			for _, key := range args.Rules[i].Labels {
				if _, has := n.node().Labels[key]; has == *args.Rules[i].Presence || slices.Contains(keys, key) || s.fixed(key) {
					continue
				}
				keys = append(keys, key)
				if *args.Rules[i].Presence {
					values[key] = new(string)
				}
				add(labelling(3.8, n.node(), fmt.Sprintf(", which rules[%d] of LabelPresence asks for", i), []string{key}, map[string]*string{key: values[key]}))
			}
		}
		if len(keys) > 1 {
			add(labelling(4, n.node(), ", which rules of LabelPresence ask for", keys, values))
		}
	}
}

// proposeTenancy proposes to assign the namespace, or a node, to a tenant.
func proposeTenancy(s *situation, add func(*Change)) {
	args, ok := argsOf[*config.LabelPresenceArgs](s.in, s.pod.Spec.SchedulerName)
	if !ok || args.Tenancy == nil {
		return
	}
	nodeKey, namespaceKey := args.Tenancy.NodeLabelKey, args.Tenancy.NamespaceLabelKey
	for _, namespace := range others[*corev1.Namespace](s.in) {
		if namespace.Name != s.pod.Namespace {
			continue
		}
		owner, has := namespace.Labels[namespaceKey]
		seen := map[string]bool{}
		for _, n := range s.nearest(true) {
			if _, ok := n.has(labelpresence.Name); !ok {
				continue
			}
			if tenant, of := n.node().Labels[nodeKey]; of && !has && !seen[tenant] {
				seen[tenant] = true
				// The pod's author must not learn which tenant that is, and which nodes it has.
				add(&Change{
					Who: OnCluster, Kind: "tenant", cost: 5, Text: fmt.Sprintf("assign namespace %s to a tenant whose nodes can take the pod (label %s)", namespace.Name, namespaceKey),
					edits: []edit{editOf(namespace, func(n *corev1.Namespace) { metav1.SetMetaDataLabel(&n.ObjectMeta, namespaceKey, tenant) })},
				})
			} else if !of && has {
				add(labelling(5.2, n.node(), ", which assigns the node to the tenant of namespace "+namespace.Name, []string{nodeKey}, map[string]*string{nodeKey: &owner}))
			}
		}
	}
}
