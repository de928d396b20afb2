// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

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
			klog.FromContext(ctx).Error(err, "Could not check this credential's permissions; starting anyway")
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
// needs. If it cannot be asked, the scheduler starts regardless, as with [checkRights].
func checkServed(ctx context.Context, client kubernetes.Interface, needed []registry.CustomResource) error {
	unserved, err := settings.Unserved(client, needed)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not get the resources that the API server serves; starting without this check")
	}
	if len(unserved) == 0 {
		return nil
	}
	var lines strings.Builder
	for _, resource := range unserved {
		fmt.Fprintf(&lines, "\n  %s: %s needs it; %s defines it", resource.GroupResource(), resource.Plugin, resource.Definition)
	}
	return fmt.Errorf("the API server does not serve %d resource(s) that plugins of these profiles watch:%s\ninstall the CustomResourceDefinitions and start again, or disable the plugins",
		len(unserved), lines.String())
}
