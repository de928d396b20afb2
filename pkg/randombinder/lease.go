// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
)

// lead runs work while this process holds the lease. It returns what work
// returned; nil if ctx was done before there was a lease; or an error if the
// lease was lost before ctx was done. The lease is given up only after work has returned, so that
// two leaders never overlap on an orderly stop.
func lead(ctx context.Context, client kubernetes.Interface, config componentbaseconfig.LeaderElectionConfiguration,
	watchdog *leaderelection.HealthzAdaptor, work func(context.Context) error,
) error {
	if err := checkLeaseNamespace(ctx, client, config); err != nil {
		return err
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding a name for leader election: %w", err)
	}

	// The election must outlive ctx until work has ended.
	election, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	lost := fmt.Errorf("lost the lease %s/%s: another replica may bind from now on", config.ResourceNamespace, config.ResourceName)
	// Exactly one sends the result, the one that claims it first: work, a stop
	// before there was a lease, or an election that ended before work began.
	result := make(chan error, 1)
	var claimed atomic.Bool
	claim := func() bool { return claimed.CompareAndSwap(false, true) }
	defer context.AfterFunc(ctx, func() {
		if claim() {
			result <- nil
			release()
		}
	})()

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: config.ResourceNamespace, Name: config.ResourceName},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
		},
		Name:            config.ResourceName,
		LeaseDuration:   config.LeaseDuration.Duration,
		RenewDeadline:   config.RenewDeadline.Duration,
		RetryPeriod:     config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		WatchDog:        watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !claim() {
					return
				}
				working, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(leading, stop)()
				err := work(working)
				// Only a lost lease ends leading before release does. This
				// cannot be told later: release ends it too.
				if leading.Err() != nil && ctx.Err() == nil {
					err = errors.Join(err, lost)
				}
				result <- err
				release()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	watchdog.SetLeaderElection(elector)
	elector.Run(election)

	if claim() {
		return lost
	}
	return <-result
}

// checkLeaseNamespace fails if the lease can never be created, which leader
// election itself would retry for ever.
func checkLeaseNamespace(ctx context.Context, client kubernetes.Interface, config componentbaseconfig.LeaderElectionConfiguration) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: config.ResourceNamespace, Name: config.ResourceName}}
	_, err := client.CoordinationV1().Leases(config.ResourceNamespace).Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("--leader-elect-resource-namespace=%s: there is no such namespace for the lease (create it, name another, or run one replica with --leader-elect=false)", config.ResourceNamespace)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("trying to create the lease %s/%s: %w", config.ResourceNamespace, config.ResourceName, err)
	}
	return nil
}
