// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
)

func newLock(client kubernetes.Interface, identity string, mustBeHeld bool, serves ...string) *Lock {
	return New(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "lease"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, serves, mustBeHeld)
}

// withLease returns a client of a cluster with the lease.
func withLease(spec coordinationv1.LeaseSpec) kubernetes.Interface {
	return fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, Spec: spec})
}

const (
	uuid1 = "0b8c1c3e-6f0e-4d5c-9a9e-2f9f1f1d8a11"
	uuid2 = "5f2d7a40-13a8-4f0b-8e0e-7c6f5b4a3921"
)

func TestWaits(t *testing.T) {
	tests := []struct {
		name             string
		identity, holder string
		serves           []string
		wantErr          bool
	}{
		{name: "free", identity: "a_1", serves: []string{"x"}},
		{name: "held by this process", identity: "a_1", serves: []string{"y", "x"}, holder: "a_1_x,y"},
		{name: "held by a replica", identity: "a_1", serves: []string{"x"}, holder: "b_2_x"},
		{name: "held by one that serves one of the names", identity: "a_1", serves: []string{"x", "y"}, holder: "b_2_y,z"},
		{name: "held by another scheduler", identity: "a_1", serves: []string{"x"}, holder: "b_2_z", wantErr: true},
		{name: "held by kube-scheduler", identity: "a_1", serves: []string{"x"}, holder: "b_2", wantErr: true},
		{name: "held by kube-scheduler, in whose place this is", identity: "a_1", serves: []string{"default-scheduler"}, holder: "b_2"},
		{name: "held by the pod that this one replaces", identity: "berth-7d4b8c9f5d-x2k4z_1", serves: []string{"x"}, holder: "berth-9c8d4f6b77-zq5lm_2_z"},
		{name: "held by the same from before identities had names", identity: "berth-7d4b8c9f5d-x2k4z_1", serves: []string{"x"}, holder: "berth-9c8d4f6b77-zq5lm_2"},
		{name: "held by another instance", identity: "berth-b-7d4b8c9f5d-x2k4z_1", serves: []string{"x"}, holder: "berth-9c8d4f6b77-zq5lm_2_z", wantErr: true},
		{name: "held by another host whose name is numbered alike", identity: "ip-10-0-1-15_1", serves: []string{"x"}, holder: "ip-10-0-1-99_2_z", wantErr: true},
		{name: "held by another host that is called like a pod of a StatefulSet", identity: "sched-a-0_1", serves: []string{"x"}, holder: "sched-a-1_2_z", wantErr: true},
		{name: "held on a host with an underscore", identity: "build_host_" + uuid1, serves: []string{"x"}, holder: "build_host_" + uuid2 + "_x"},
		{name: "held on one by another scheduler", identity: "build_host_" + uuid1, serves: []string{"x"}, holder: "build_host_" + uuid2 + "_z", wantErr: true},
		{name: "held on one by kube-scheduler, in whose place this is", identity: "a_host_" + uuid1, serves: []string{"default-scheduler"}, holder: "build_host_" + uuid2},
		{name: "held on one by kube-scheduler", identity: "a_host_" + uuid1, serves: []string{"x"}, holder: "build_host_" + uuid2, wantErr: true},
		{name: "held by one that serves a name with an underscore", identity: "a_" + uuid1, serves: []string{"x_y"}, holder: "b_" + uuid2 + "_w,x_y"},
		{name: "held on such a host, without a UUID", identity: "build_host_1", serves: []string{"x"}, holder: "build_host_2_x"},
		{name: "held by something without underscores", identity: "a_1", serves: []string{"x"}, holder: "somebody", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lock := newLock(withLease(coordinationv1.LeaseSpec{HolderIdentity: &tt.holder}), tt.identity, false, tt.serves...)
			if err := lock.Waits(); err != nil {
				t.Errorf("before the lease was read: %v", err)
			}
			ctx := klog.NewContext(t.Context(), logr.Discard())
			if _, _, err := lock.Get(ctx); err != nil {
				t.Fatal(err)
			}
			err := lock.Waits()
			if (err != nil) != tt.wantErr {
				t.Errorf("error is %v, wanted one: %t", err, tt.wantErr)
			}
			if err != nil && (!strings.Contains(err.Error(), "ns/lease is held by "+tt.holder) || !strings.Contains(err.Error(), "leaderElection.resourceName")) {
				t.Errorf("the error does not name lease, holder and field: %v", err)
			}
		})
	}
}

// TestWaitsEnds: what a process waits for is what it read last.
func TestWaitsEnds(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	client := withLease(coordinationv1.LeaseSpec{HolderIdentity: new("b_2_z")})
	lock := newLock(client, "a_1", false, "x")
	read := func() error {
		t.Helper()
		if _, _, err := lock.Get(ctx); err != nil {
			t.Fatal(err)
		}
		return lock.Waits()
	}
	metric := func(want string) {
		t.Helper()
		registry := metrics.NewKubeRegistry()
		registry.RawMustRegister(newMetric(lock))
		expected := "# HELP berth_lease_held_by_another [ALPHA] 1 while the lease that this process waits for is held by a scheduler that serves none of its names, so that it never leads; " +
			"0 while it leads, waits for a replica of its own, or has not read the lease yet.\n# TYPE berth_lease_held_by_another gauge\nberth_lease_held_by_another " + want + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(expected)); err != nil {
			t.Error(err)
		}
	}
	metric("0")
	if err := read(); err == nil {
		t.Error("held by another scheduler: no error")
	}
	metric("1")
	lease, err := client.CoordinationV1().Leases("ns").Get(ctx, "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Spec.HolderIdentity = new("")
	if _, err := client.CoordinationV1().Leases("ns").Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("released: %v", err)
	}
	metric("0")
}

func TestMustBeHeld(t *testing.T) {
	now := metav1.NewMicroTime(time.Unix(1_800_000_000, 0))
	tests := []struct {
		name   string
		client kubernetes.Interface
		want   bool
	}{
		{name: "no lease", client: fake.NewClientset()},
		{name: "a lease that somebody prepared", client: withLease(coordinationv1.LeaseSpec{})},
		{name: "held", client: withLease(coordinationv1.LeaseSpec{HolderIdentity: new("b_2"), AcquireTime: &now}), want: true},
		{name: "given back", client: withLease(coordinationv1.LeaseSpec{HolderIdentity: new(""), AcquireTime: &now}), want: true},
		{name: "changed hands", client: withLease(coordinationv1.LeaseSpec{LeaseTransitions: new(int32(1))}), want: true},
	}
	le := componentbaseconfig.LeaderElectionConfiguration{ResourceNamespace: "ns", ResourceName: "lease"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := klog.NewContext(t.Context(), logr.Discard())
			if err := CheckHeld(ctx, tt.client, le); errors.Is(err, ErrNeverHeld) == tt.want || (err == nil) != tt.want {
				t.Errorf("CheckHeld: %v", err)
			}
			if _, _, err := newLock(tt.client, "a_1", true, "x").Get(ctx); errors.Is(err, ErrNeverHeld) == tt.want {
				t.Errorf("Get: %v", err)
			}
			// Without the condition, client-go's answer.
			if _, _, err := newLock(tt.client, "a_1", false, "x").Get(ctx); errors.Is(err, ErrNeverHeld) {
				t.Errorf("Get without the condition: %v", err)
			}
		})
	}
}

// TestTakenOver: a process that has taken an expired lease over waits for nobody, though
// it does not read the lease again.
func TestTakenOver(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	lock := newLock(withLease(coordinationv1.LeaseSpec{HolderIdentity: new("b_2_z")}), "a_1", false, "x")
	record, _, err := lock.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if lock.Waits() == nil {
		t.Error("the lease of another scheduler is waited for without an error")
	}
	record.HolderIdentity = lock.Identity()
	if err := lock.Update(ctx, *record); err != nil {
		t.Fatal(err)
	}
	if err := lock.Waits(); err != nil || lock.Holder() != "" {
		t.Errorf("this process holds the lease, and waits for %q: %v", lock.Holder(), err)
	}
}

// TestDeletedLease: a lease that was held may be made anew by whoever saw that, also
// where nobody may be the first to hold it.
func TestDeletedLease(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	client := withLease(coordinationv1.LeaseSpec{HolderIdentity: new("b_2")})
	lock := newLock(client, "a_1", true, "default-scheduler")
	record, _, err := lock.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoordinationV1().Leases("ns").Delete(ctx, "lease", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("got the error %v, want NotFound, at which the election creates the lease", err)
	}
	record.HolderIdentity = lock.Identity()
	if err := lock.Create(ctx, *record); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newLock(client, "c_3", true, "default-scheduler").Get(ctx); err != nil {
		t.Errorf("the lease that was made anew: %v", err)
	}
}

// TestRelease: a lease is given back only by who holds it, and only when what must come
// first is done.
func TestRelease(t *testing.T) {
	failed := errors.New("not done")
	tests := []struct {
		name, holder string
		before       func(context.Context) error
		wantErr      bool
	}{
		{name: "held", holder: "a_1_x"},
		{name: "held, and what comes first is done", holder: "a_1_x", before: func(context.Context) error { return nil }},
		{name: "held, and what comes first is not done", holder: "a_1_x", before: func(context.Context) error { return failed }, wantErr: true},
		{name: "taken over by another", holder: "b_2_x", wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := klog.NewContext(t.Context(), logr.Discard())
			client := withLease(coordinationv1.LeaseSpec{HolderIdentity: new(tt.holder)})
			lock := newLock(client, "a_1", false, "x")
			lock.BeforeRelease(tt.before)
			record, _, err := lock.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			record.HolderIdentity = ""
			if err := lock.Update(ctx, *record); (err != nil) != tt.wantErr {
				t.Errorf("error is %v, wanted one: %t", err, tt.wantErr)
			}
			got, err := client.CoordinationV1().Leases("ns").Get(ctx, "lease", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if released := *got.Spec.HolderIdentity == ""; released == tt.wantErr {
				t.Errorf("the lease is held by %q", *got.Spec.HolderIdentity)
			}
		})
	}
}

// TestState: exactly one state at a time is 1, by what was read or written last.
func TestState(t *testing.T) {
	tests := []struct {
		name, holder string
		read         bool
		want         state
	}{
		{name: "not read yet", want: unread},
		{name: "free", read: true, want: standby},
		{name: "held by this process", holder: "a_1_x", read: true, want: leading},
		{name: "held by a replica", holder: "b_2_x", read: true, want: standby},
		{name: "held by another scheduler", holder: "b_2_z", read: true, want: waiting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lock := newLock(withLease(coordinationv1.LeaseSpec{HolderIdentity: &tt.holder}), "a_1", false, "x")
			if tt.read {
				if _, _, err := lock.Get(klog.NewContext(t.Context(), logr.Discard())); err != nil {
					t.Fatal(err)
				}
			}
			registry := metrics.NewKubeRegistry()
			for _, s := range states {
				registry.RawMustRegister(newStateMetric(lock, s))
			}
			gathered, err := registry.Gather()
			if err != nil || len(gathered) != 1 {
				t.Fatalf("%d metrics: %v", len(gathered), err)
			}
			for _, m := range gathered[0].GetMetric() {
				s := state(m.GetLabel()[0].GetValue())
				if got := m.GetGauge().GetValue() == 1; got != (s == tt.want) {
					t.Errorf("state %s is %v, and the process is %s", s, got, tt.want)
				}
			}
		})
	}
}
