// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// victim is an object to delete.
type victim struct {
	namespace, name string
	uid             types.UID
}

// victims are those items that match.
func victims[T any, P interface {
	*T
	metav1.Object
}](items []T, match func(P) bool) []victim {
	var found []victim
	for i := range items {
		if item := P(&items[i]); match(item) {
			found = append(found, victim{namespace: item.GetNamespace(), name: item.GetName(), uid: item.GetUID()})
		}
	}
	return found
}

// sweep deletes what list finds until it finds nothing or ctx ends, and adds to removed
// how much there was. It tries again after errors, but not for ever, and not where they
// are final. One request for each object, several at a time: a DeleteCollection deletes
// one after the other, and each has to reach the disks of etcd.
func sweep(ctx context.Context, what string, removed *int,
	list func(context.Context) ([]victim, error), remove func(context.Context, victim) error,
) error {
	most := 0
	defer func() { *removed += most }()
	var again retry
	for {
		left, err := sweepOnce(ctx, list, remove)
		most = max(most, len(left))
		if err == nil && len(left) == 0 {
			return nil
		}
		if err := again.wait(ctx, err); err != nil {
			return unswept(what, left, err)
		}
	}
}

// sweepOnce lists and deletes, and returns what was listed.
func sweepOnce(ctx context.Context, list func(context.Context) ([]victim, error), remove func(context.Context, victim) error) ([]victim, error) {
	var left []victim
	err := limited(ctx, func(ctx context.Context) (err error) {
		left, err = list(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, workers, len(left), func(i int) {
		err := limited(ctx, func(ctx context.Context) error { return remove(ctx, left[i]) })
		// Somebody else has deleted it, or created another one of its name.
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	if len(errs) > 1 {
		return left, fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
	}
	return left, errors.Join(errs...)
}

// unswept says what could not be removed.
func unswept(what string, left []victim, err error) error {
	if len(left) == 0 {
		return fmt.Errorf("removing %s: %w", what, err)
	}
	return fmt.Errorf("removing %s: %d left, among them %s: %w", what, len(left), left[0].name, err)
}
