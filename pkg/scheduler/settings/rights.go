// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

// Rights are what a scheduler with this configuration needs of the API server. effective
// is what each profile runs; enabled says which feature gates are on.
func Rights(config *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins, enabled func(featuregate.Feature) bool) []preflight.Right {
	return slices.Concat(neededRights(config, enabled), pluginRights(effective), customRights(registry.CustomResources(effective)))
}

// read is what an informer needs.
var read = []string{"list", "watch"}

// pluginRights are the rights that the plugins of Berth need beyond what
// kube-scheduler itself does. effective is what each profile runs.
func pluginRights(effective map[string]*schedconfig.Plugins) []preflight.Right {
	if !registry.Runs(effective, colocation.Name) {
		return nil
	}
	return preflight.Expand(preflight.Right{
		Group: "discovery.k8s.io", Resource: "endpointslices",
		Why: colocation.Name + " uses them to find the endpoints of Services without a selector (manifests/base/rbac.yaml grants it to Berth's ServiceAccount, " +
			"manifests/kubeadm/rbac-colocation.yaml to the static pod's system:kube-scheduler)",
	}, read...)
}

// neededRights lists what kube-scheduler 1.36 does with the API under this
// configuration. The sources are its informers (pkg/scheduler/eventhandlers.go,
// scheduler.go and the plugins' constructors), its writes (api_calls, the
// preemption executor, events) and its leader election. A right that is only
// needed behind a feature gate is listed only where that gate is on.
func neededRights(config *schedconfig.KubeSchedulerConfiguration, enabled func(featuregate.Feature) bool) []preflight.Right {
	var rights []preflight.Right
	need := func(why, group, resource string, verbs ...string) {
		rights = append(rights, preflight.Expand(preflight.Right{Group: group, Resource: resource, Why: why}, verbs...)...)
	}
	needSub := func(why, group, resource, subresource string, verbs ...string) {
		rights = append(rights, preflight.Expand(preflight.Right{Group: group, Resource: resource, Subresource: subresource, Why: why}, verbs...)...)
	}

	need("pods are what is scheduled", "", "pods", read...)
	need("preemption deletes its victims", "", "pods", "delete")
	needSub("a placement is written as a Binding", "", "pods", "binding", "create")
	needSub("why a pod is not placed is written to its status", "", "pods", "status", "patch")
	need("nodes are what pods are placed on", "", "nodes", read...)
	need("namespace labels decide tenancy, rules with a namespaceSelector and pod affinity", "", "namespaces", read...)
	need("default topology spreading looks at what selects a pod", "", "services", read...)
	need("default topology spreading looks at what selects a pod", "", "replicationcontrollers", read...)
	need("default topology spreading looks at what selects a pod", "apps", "replicasets", read...)
	need("default topology spreading looks at what selects a pod", "apps", "statefulsets", read...)
	need("preemption honors disruption budgets", "policy", "poddisruptionbudgets", read...)

	need("a pod's volumes limit its nodes", "", "persistentvolumeclaims", append([]string{"update"}, read...)...)
	need("a pod's volumes limit its nodes", "", "persistentvolumes", append([]string{"update"}, read...)...)
	for _, resource := range []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"} {
		need("a pod's volumes limit its nodes", "storage.k8s.io", resource, read...)
	}

	if enabled(features.DynamicResourceAllocation) {
		const why = "dynamic resource allocation"
		need(why, "resource.k8s.io", "deviceclasses", read...)
		need(why, "resource.k8s.io", "resourceslices", read...)
		need(why, "resource.k8s.io", "resourceclaims", append([]string{"get", "update"}, read...)...)
		needSub(why, "resource.k8s.io", "resourceclaims", "status", "update", "patch")
		if enabled(features.DRAExtendedResource) {
			need(why, "resource.k8s.io", "resourceclaims", "create", "delete")
			// The claims that it creates name the pod as owner and block its
			// deletion, which OwnerReferencesPermissionEnforcement checks.
			needSub(why, "", "pods", "finalizers", "update")
		}
		if enabled(features.DRAResourceClaimGranularStatusAuthorization) {
			// No endpoint of its own: who writes status.allocation is asked for it.
			needSub(why, "resource.k8s.io", "resourceclaims", "binding", "update", "patch")
		}
		if enabled(features.DRADeviceTaintRules) {
			need(why, "resource.k8s.io", "devicetaintrules", read...)
		}
	}
	if enabled(features.GenericWorkload) {
		need("gang scheduling", "scheduling.k8s.io", "podgroups", read...)
		needSub("gang scheduling", "scheduling.k8s.io", "podgroups", "status", "patch")
	}

	need("a pod's events say where it went and why it waits", "events.k8s.io", "events", "create", "patch")

	if le := config.LeaderElection; le.LeaderElect {
		const why = "leader election keeps all but one replica waiting"
		need("leader election reports through the old events API", "", "events", "create", "patch")
		rights = append(rights, preflight.LeaseRights(le, why)...)
		if enabled(features.CoordinatedLeaderElection) {
			rights = append(rights, preflight.Expand(preflight.Right{
				Group: "coordination.k8s.io", Resource: "leasecandidates", Namespace: metav1.NamespaceSystem,
				Why: "the feature gate CoordinatedLeaderElection is on (a Role there; the one in manifests/base/rbac.yaml does not grant it)",
			}, "list", "watch", "create", "update")...)
		}
	}
	return rights
}

// customRights are the rights that the watches on custom resources need.
func customRights(needed []registry.CustomResource) (rights []preflight.Right) {
	for _, resource := range needed {
		rights = append(rights, preflight.Expand(preflight.Right{
			Group: resource.Group, Resource: resource.Resource, Why: resource.Plugin + " reads them",
		}, slices.Concat(read, resource.Verbs)...)...)
	}
	return rights
}
