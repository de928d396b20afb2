// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// leaseName is the name of the Lease in a run's namespace.
	leaseName = "alive"
	// leaseSeconds is how long a run that does not renew its Lease passes for alive:
	// several times the pause between renewals, because a benchmark keeps the API
	// server busy.
	leaseSeconds = 15
	renewPause   = 3 * time.Second
	// lookPause is the pause between two looks at a Lease.
	lookPause = 500 * time.Millisecond
)

// heartbeat renews the Lease of a run until it is stopped.
type heartbeat struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// startHeartbeat creates the Lease. The renewals outlive ctx: a run whose context
// has ended is alive until it has closed its ground.
func startHeartbeat(ctx context.Context, client kubernetes.Interface, runID string, progress func(string)) (*heartbeat, error) {
	now := metav1.NowMicro()
	leases := client.CoordinationV1().Leases(namespaceOf(runID))
	_, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName, Labels: map[string]string{names.BenchLabel: runID}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(thisHolder().String()),
			LeaseDurationSeconds: ptr.To[int32](leaseSeconds),
			AcquireTime:          &now,
			RenewTime:            &now,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the Lease %s/%s: %w", namespaceOf(runID), leaseName, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &heartbeat{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			// One that hangs must not use up the time for which the Lease is valid.
			ctx, end := context.WithTimeout(ctx, renewPause)
			defer end()
			patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
			_, err := leases.Patch(ctx, leaseName, types.MergePatchType, patch, metav1.PatchOptions{})
			if apierrors.IsNotFound(err) && ctx.Err() == nil {
				progress("somebody has cleaned the namespace " + namespaceOf(runID) + " away")
				cancel()
			}
			// Any other failure is tried again: one renewal in leaseSeconds is enough.
		}, renewPause)
	}()
	return h, nil
}

// stop ends the renewals. On nil it does nothing.
func (h *heartbeat) stop() {
	if h == nil {
		return
	}
	h.cancel()
	<-h.done
}

// alive reports whether a run renews its Lease, and who it is. It looks on until the
// Lease changes or the time is over for which it is valid, and compares no clocks of
// two machines. A run whose process is known to have ended is told at once.
func alive(ctx context.Context, client kubernetes.Interface, runID string) (who string, is bool, err error) {
	first, err := lookAtLease(ctx, client, runID)
	if err != nil || first == nil {
		return "", false, err
	}
	who = ptr.Deref(first.Spec.HolderIdentity, "")
	if parseHolder(who).gone() {
		return who, false, nil
	}
	window := time.Duration(ptr.Deref(first.Spec.LeaseDurationSeconds, leaseSeconds)) * time.Second
	err = wait.PollUntilContextTimeout(ctx, lookPause, window, false, func(ctx context.Context) (bool, error) {
		lease, err := lookAtLease(ctx, client, runID)
		if err != nil || lease == nil {
			return lease == nil && err == nil, err
		}
		if lease.ResourceVersion != first.ResourceVersion {
			is = true
			who = ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		return is, nil
	})
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return who, is, err
}

// lookAtLease returns the Lease of a run: an empty one if the run has a namespace
// without it, as it is just before it is created, and nil if it has none, or one
// that is going away.
func lookAtLease(ctx context.Context, client kubernetes.Interface, runID string) (*coordinationv1.Lease, error) {
	ns, err := client.CoreV1().Namespaces().Get(ctx, namespaceOf(runID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && ns.DeletionTimestamp != nil) {
		return nil, nil //nolint:nilnil // no lease is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespaceOf(runID), err)
	}
	lease, err := client.CoordinationV1().Leases(ns.Name).Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Lease %s/%s: %w", ns.Name, leaseName, err)
	}
	return lease, nil
}
