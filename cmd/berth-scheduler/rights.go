// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/preflight"
	"github.com/berth-scheduler/berth/pkg/registry"
)

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
		Why: colocation.Name + " finds by them what is behind a Service without a selector (manifests/components/colocation grants it to Berth's ServiceAccount, " +
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
	needSub("a pod that cannot be placed is told so in its status", "", "pods", "status", "patch")
	need("nodes are what pods are placed on", "", "nodes", read...)
	need("namespace labels decide tenancy, rules with a namespaceSelector and pod affinity", "", "namespaces", read...)
	need("default topology spreading looks at what selects a pod", "", "services", read...)
	need("default topology spreading looks at what selects a pod", "", "replicationcontrollers", read...)
	need("default topology spreading looks at what selects a pod", "apps", "replicasets", read...)
	need("default topology spreading looks at what selects a pod", "apps", "statefulsets", read...)
	need("preemption honours disruption budgets", "policy", "poddisruptionbudgets", read...)

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
				Why: "the feature gate CoordinatedLeaderElection is on (a Role there; the one in manifests/base/rbac.yaml is without)",
			}, "list", "watch", "create", "update")...)
		}
	}
	return rights
}

// checkRights fails if the API server denies something that the scheduler needs:
// rights to its own credential, and the rights of /metrics and the health
// endpoints to the credentials that those use. If it cannot be asked, the
// scheduler starts regardless: its informers wait for an API server that comes up
// late.
func checkRights(ctx context.Context, client kubernetes.Interface, opts *options.Options, rights []preflight.Right) error {
	type check struct {
		client kubernetes.Interface // nil: nothing to ask
		rights []preflight.Right
	}
	checks := []check{{client, rights}}
	if opts.SecureServing.BindPort != 0 {
		checks = append(checks,
			check{delegate(opts.Authentication.RemoteKubeConfigFile), preflight.AuthenticationRights(!opts.Authentication.SkipInClusterLookup)},
			check{delegate(opts.Authorization.RemoteKubeConfigFile), preflight.AuthorizationRights()})
	}

	var denied []error
	for _, check := range checks {
		if check.client == nil {
			continue
		}
		err := preflight.Check(ctx, check.client, check.rights)
		var missing *preflight.MissingRightsError
		switch {
		case errors.As(err, &missing):
			denied = append(denied, err)
		case err != nil:
			klog.FromContext(ctx).Error(err, "Could not check this credential's rights, starting without")
		}
	}
	if len(denied) > 0 {
		return fmt.Errorf("%w\ngrant them, for instance with manifests/base/rbac.yaml, and start again", errors.Join(denied...))
	}
	return nil
}

// delegate returns a client with the credential that upstream delegates
// authentication or authorization with (DelegatingAuthenticationOptions and
// DelegatingAuthorizationOptions, getClient): that of the kubeconfig, or without
// one that of the pod. Outside of a pod there is none, and nothing is delegated;
// then it returns nil, as it does for a kubeconfig that upstream will complain of.
func delegate(kubeconfig string) kubernetes.Interface {
	var config *rest.Config
	var err error
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil
	}
	return client
}

// checkServed fails if the API server does not serve a resource that a profile
// needs: its informer would retry for ever, and no pod would be scheduled. If the
// API server cannot be asked, the scheduler starts regardless, as with
// [checkRights].
func checkServed(ctx context.Context, client kubernetes.Interface, needed []registry.CustomResource) error {
	var missing []string
	for _, resource := range needed {
		list, err := client.Discovery().ServerResourcesForGroupVersion(resource.GroupVersion().String())
		switch {
		case apierrors.IsNotFound(err) || err == nil && !serves(list, resource.Resource):
			missing = append(missing, fmt.Sprintf("\n  %s: %s needs it; %s defines it",
				resource.GroupResource(), resource.Plugin, resource.Definition))
		case err != nil:
			klog.FromContext(ctx).Error(err, "Could not ask which resources the API server serves, starting without", "resource", resource.GroupVersionResource)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the API server does not serve %d resource(s) that plugins of these profiles watch:%s\ninstall the CustomResourceDefinitions and start again, or disable the plugins",
			len(missing), strings.Join(missing, ""))
	}
	return nil
}

// checkPodGroupsServed fails if the feature gate of PodGroups is on and the API server
// does not serve them, as [checkServed] does.
func checkPodGroupsServed(ctx context.Context, client kubernetes.Interface, enabled func(featuregate.Feature) bool) error {
	if !enabled(features.GenericWorkload) {
		return nil
	}
	version := schedulingv1alpha2.SchemeGroupVersion.String()
	list, err := client.Discovery().ServerResourcesForGroupVersion(version)
	switch {
	case apierrors.IsNotFound(err) || err == nil && !serves(list, "podgroups"):
		return fmt.Errorf("--feature-gates: %[1]s=true needs PodGroups of %[2]s, which the API server does not serve: start the API server with --feature-gates=%[1]s=true --runtime-config=%[2]s=true, or the scheduler without the gate",
			features.GenericWorkload, version)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Could not ask which resources the API server serves, starting without", "resource", version)
	}
	return nil
}

func serves(list *metav1.APIResourceList, resource string) bool {
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return true
		}
	}
	return false
}

// customRights are the rights that the watches on custom resources need.
func customRights(needed []registry.CustomResource) []preflight.Right {
	var rights []preflight.Right
	for _, resource := range needed {
		rights = append(rights, preflight.Expand(preflight.Right{
			Group: resource.Group, Resource: resource.Resource, Why: resource.Plugin + " reads them",
		}, read...)...)
	}
	return rights
}
