// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

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
	return Listing{Required: []string{"nodes", "pods"}}.List(ctx, client)
}

// Listing says what of a cluster is listed.
type Listing struct {
	// Resources are those that are listed, by their plurals, which must be
	// [Supported]. Nil is all.
	Resources []string
	// Required are those of them without which there is nothing to tell: an error and
	// not a note.
	Required []string
	// Namespace is the one in which objects are listed that the credential may not list
	// in all namespaces ([Cluster.ListedIn]). Empty leaves them out.
	Namespace string
}

// List is [List] of what the listing says.
func (l Listing) List(ctx context.Context, client kubernetes.Interface) (*Cluster, []Note, error) {
	c := &Cluster{}
	var notes []Note
	for _, kind := range supported {
		resource := kind.Resource
		if l.Resources != nil && !slices.Contains(l.Resources, resource) {
			continue
		}
		err := c.list(ctx, resource, kind.list(client, metav1.NamespaceAll))
		if apierrors.IsForbidden(err) && kind.Namespaced && l.Namespace != "" {
			if c.list(ctx, resource, kind.list(client, l.Namespace)) == nil {
				c.listedIn[resource] = l.Namespace
				notes = append(notes, Note{Text: fmt.Sprintf("%s of other namespaces than %s were left out: %v", resource, l.Namespace, err)})
				continue
			}
		}
		switch {
		case err == nil || kind.OptIn && apierrors.IsNotFound(err):
		case !slices.Contains(l.Required, resource) && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
			notes = append(notes, Note{Text: fmt.Sprintf("%s were left out: %v", resource, err)})
		default:
			return nil, nil, fmt.Errorf("listing %s: %w", resource, err)
		}
	}
	if c.Has("nodes") {
		notes = append(notes, c.strayNotes()...)
	}
	return c, notes, nil
}

// list adds what is listed of a resource.
func (c *Cluster) list(ctx context.Context, resource string, list pager.ListPageFunc) error {
	err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		// Of an object that the API server let through, nothing is wrong that a
		// scheduler would mind; but the order of the pages is not in our hands.
		return c.Add(obj.DeepCopyObject())
	})
	if err == nil {
		c.has(resource)
	}
	return err
}

// page adapts the List method of a typed client.
func page[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
}
