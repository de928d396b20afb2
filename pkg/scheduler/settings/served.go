// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/registry"
)

// Unserved returns the needed resources that the API server does not serve: their informers
// would retry forever, and no pod would be scheduled. The error is that it could not be
// asked about some.
func Unserved(client kubernetes.Interface, needed []registry.CustomResource) (missing []registry.CustomResource, err error) {
	var errs []error
	for _, resource := range needed {
		list, err := client.Discovery().ServerResourcesForGroupVersion(resource.GroupVersion().String())
		switch {
		case apierrors.IsNotFound(err) || err == nil && !serves(list, resource.Resource):
			missing = append(missing, resource)
		case err != nil:
			errs = append(errs, fmt.Errorf("asking whether %s are served: %w", resource.GroupResource(), err))
		}
	}
	return missing, errors.Join(errs...)
}

// PodGroupsServed returns a problem if the feature gate of PodGroups is on and the API
// server does not serve them. The error is that it could not be asked.
func PodGroupsServed(client kubernetes.Interface, enabled func(featuregate.Feature) bool) (problem, err error) {
	if !enabled(features.GenericWorkload) {
		return nil, nil
	}
	list, err := client.Discovery().ServerResourcesForGroupVersion(compat.PodGroups)
	switch {
	case apierrors.IsNotFound(err) || err == nil && !serves(list, "podgroups"):
		return fmt.Errorf("--feature-gates: %[1]s=true needs PodGroups of %[2]s, which the API server does not serve: start the API server with --feature-gates=%[1]s=true --runtime-config=%[2]s=true, or the scheduler without the gate",
			features.GenericWorkload, compat.PodGroups), nil
	case err != nil:
		return nil, fmt.Errorf("asking whether %s is served: %w", compat.PodGroups, err)
	}
	return nil, nil
}

func serves(list *metav1.APIResourceList, resource string) bool {
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}
