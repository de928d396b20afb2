// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// renewals counts how often a lease is written: requests of a scheduler that no pod
// causes.
type renewals struct {
	count atomic.Int64
	// lost is set if the watch ended: then the count is not complete.
	lost atomic.Bool
}

// watchRenewals counts until ctx ends.
func watchRenewals(ctx context.Context, client kubernetes.Interface, namespace, name string) (*renewals, error) {
	w, err := client.CoordinationV1().Leases(namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("watching lease %s/%s: %w", namespace, name, err)
	}
	r := &renewals{}
	go func() {
		defer w.Stop()
		for event := range w.ResultChan() {
			if event.Type == watch.Modified {
				r.count.Add(1)
			}
		}
		r.lost.Store(ctx.Err() == nil)
	}()
	return r, nil
}
