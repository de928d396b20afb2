// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// leaseName is the name of the Lease in a run's namespace.
	leaseName = "alive"
	// leaseDuration is how long a run that does not renew its Lease passes for alive:
	// several times renewInterval, because a benchmark keeps the API server busy.
	leaseDuration = 15 * time.Second
	renewInterval = 3 * time.Second
)

// renewLease creates the run's Lease, and renews it until Close. It outlives ctx: a run
// whose context has ended is alive until it has closed its environment.
func (e *Environment) renewLease(ctx context.Context) {
	ctx, e.stopRenewing = context.WithCancel(context.WithoutCancel(ctx))
	host, _ := os.Hostname() // it is only shown
	holder := fmt.Sprintf("%s, process %d", host, os.Getpid())
	go lease.NewController(clock.RealClock{}, e.client, holder, int32(leaseDuration.Seconds()), nil, renewInterval, leaseName, e.namespace, nil).Run(ctx)
}

// isAlive reports whether a run renews its Lease, and who holds it. It waits until the
// Lease changes, or for as long as it is valid, and compares no clocks of two machines.
func (e *Environment) isAlive(ctx context.Context) (holder string, alive bool, err error) {
	leases := e.client.CoordinationV1().Leases(e.namespace)
	read := func(ctx context.Context) (*coordinationv1.Lease, error) {
		current, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // it may be about to be created
			return &coordinationv1.Lease{}, nil
		}
		return current, err
	}
	first, err := read(ctx)
	if err != nil {
		return "", false, fmt.Errorf("reading the Lease %s/%s: %w", e.namespace, leaseName, err)
	}
	valid := time.Duration(ptr.Deref(first.Spec.LeaseDurationSeconds, int32(leaseDuration.Seconds()))) * time.Second
	err = wait.PollUntilContextTimeout(ctx, pollInterval, valid, true, func(ctx context.Context) (bool, error) {
		current, err := read(ctx)
		if err != nil {
			return false, err
		}
		holder, alive = ptr.Deref(current.Spec.HolderIdentity, ""), current.ResourceVersion != first.ResourceVersion
		return alive, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return holder, alive, err
}
