// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// TestLostLeaseIsAlwaysAnError loses the lease many times: the goroutine that
// works and the one that elects end at the same moment, in either order.
func TestLostLeaseIsAlwaysAnError(t *testing.T) {
	const rounds, workers = 500, 16
	ctx := klog.NewContext(t.Context(), logr.Discard())
	var next, orderly atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			client := fake.NewClientset()
			var updates int // by one goroutine at a time: that of the election
			client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				// The first update takes the lease, which lead's dry run has left here.
				updates++
				return updates > 1, nil, errors.New("the API server is away")
			})
			for round := next.Add(1); round <= rounds; round = next.Add(1) {
				updates = 0
				options := testOptions(FitConstraints)
				config := &options.LeaderElection
				config.ResourceName = fmt.Sprint("lease-", round)
				// Lost some milliseconds after the API server stops answering.
				config.LeaseDuration.Duration, config.RenewDeadline.Duration, config.RetryPeriod.Duration = time.Second, 4*time.Millisecond, time.Millisecond
				err := lead(ctx, client, options, leaderelection.NewLeaderHealthzAdaptor(0), func(ctx context.Context) { <-ctx.Done() })
				if err == nil {
					orderly.Add(1)
				} else if !strings.Contains(err.Error(), "lost the lease berth-system/"+config.ResourceName) {
					t.Errorf("lead returned %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := orderly.Load(); n != 0 {
		t.Errorf("%d of %d lost leases passed for an orderly stop", n, rounds)
	}
}

// TestLeadStopsInOrder: a stop that was asked for is no error, with the lease or
// still without it.
func TestLeadStopsInOrder(t *testing.T) {
	tests := []struct {
		name string
		// held says that another replica holds the lease.
		held bool
	}{
		{name: "as the leader"},
		{name: "as the standby", held: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
			defer stop()
			options := testOptions(FitConstraints)
			config := &options.LeaderElection
			config.RetryPeriod.Duration = time.Millisecond
			client := fake.NewClientset()
			if tt.held {
				now := metav1.NowMicro()
				lease := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: config.ResourceNamespace, Name: config.ResourceName},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
					},
				}
				if _, err := client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					stop()
					return false, nil, nil
				})
			}
			worked := false
			err := lead(ctx, client, options, leaderelection.NewLeaderHealthzAdaptor(0), func(ctx context.Context) {
				worked = true
				stop()
				<-ctx.Done()
			})
			if err != nil {
				t.Errorf("lead returned %v", err)
			}
			if worked == tt.held {
				t.Errorf("worked: %v, want %v", worked, !tt.held)
			}
		})
	}
}
