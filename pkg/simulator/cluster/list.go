// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// List reads a cluster from its API server. It lists and does nothing else. A
// resource that the server does not serve, or that the credential may not list,
// is missing from the result, and a note says so; without nodes or pods there is
// nothing to simulate, and that is an error.
func List(ctx context.Context, client kubernetes.Interface) (*Cluster, []Note, error) {
	c := &Cluster{}
	var notes []Note
	list := listers(client)
	for _, kind := range supported {
		var wrong error
		err := pager.New(list[kind.Resource]).EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
			// Of an object that the API server let through, nothing is wrong that a
			// scheduler would mind; but the order of the pages is not in our hands.
			wrong = c.Add(obj.DeepCopyObject())
			return wrong
		})
		switch {
		case wrong != nil:
			return nil, nil, fmt.Errorf("listing %s: %w", kind.Resource, wrong)
		case err == nil:
			c.has(kind.Resource)
		case kind.Resource != "nodes" && kind.Resource != "pods" && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
			notes = append(notes, Note{Text: fmt.Sprintf("%s were left out: %v", kind.Resource, err)})
		default:
			return nil, nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
	}
	return c, append(notes, c.strayNotes()...), nil
}

// listers returns how each resource is listed.
func listers(client kubernetes.Interface) map[string]pager.ListPageFunc {
	all := metav1.NamespaceAll
	core, apps, storage, resource := client.CoreV1(), client.AppsV1(), client.StorageV1(), client.ResourceV1()
	return map[string]pager.ListPageFunc{
		"namespaces":             page(core.Namespaces().List),
		"services":               page(core.Services(all).List),
		"endpointslices":         page(client.DiscoveryV1().EndpointSlices(all).List),
		"replicationcontrollers": page(core.ReplicationControllers(all).List),
		"replicasets":            page(apps.ReplicaSets(all).List),
		"statefulsets":           page(apps.StatefulSets(all).List),
		"poddisruptionbudgets":   page(client.PolicyV1().PodDisruptionBudgets(all).List),
		"storageclasses":         page(storage.StorageClasses().List),
		"csidrivers":             page(storage.CSIDrivers().List),
		"csinodes":               page(storage.CSINodes().List),
		"csistoragecapacities":   page(storage.CSIStorageCapacities(all).List),
		"persistentvolumes":      page(core.PersistentVolumes().List),
		"persistentvolumeclaims": page(core.PersistentVolumeClaims(all).List),
		"volumeattachments":      page(storage.VolumeAttachments().List),
		"deviceclasses":          page(resource.DeviceClasses().List),
		"resourceslices":         page(resource.ResourceSlices().List),
		"resourceclaims":         page(resource.ResourceClaims(all).List),
		"nodes":                  page(core.Nodes().List),
		"pods":                   page(core.Pods(all).List),
	}
}

// page adapts the List method of a typed client.
func page[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
}
