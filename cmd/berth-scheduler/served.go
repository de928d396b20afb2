// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/preflight"
	"github.com/berth-scheduler/berth/pkg/registry"
)

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
