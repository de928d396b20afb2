// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// NewDRAManager builds what the plugin DynamicResources reads, as scheduler.New does. It is nil
// if the feature gate DynamicResourceAllocation is off. Call it before the informers start.
func NewDRAManager(ctx context.Context, factory informers.SharedInformerFactory, client kubernetes.Interface) (fwk.SharedDRAManager, error) {
	gate := utilfeature.DefaultFeatureGate
	if !gate.Enabled(features.DynamicResourceAllocation) {
		return nil, nil //nolint:nilnil // the framework takes none for none
	}
	resource := factory.Resource()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resource.V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	options := resourceslicetracker.Options{
		EnableDeviceTaintRules:   gate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: gate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resource.V1().ResourceSlices(),
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		trackDeviceTaints(&options, resource)
	}
	slices, err := resourceslicetracker.StartTracker(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("tracking resource slices: %w", err)
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	if classes, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler); ok && gate.Enabled(features.DRAExtendedResource) {
		if _, err := resource.V1().DeviceClasses().Informer().AddEventHandler(classes); err != nil {
			return nil, fmt.Errorf("tracking device classes: %w", err)
		}
	}
	return manager, nil
}
