// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease makes the lock of a leader election say what client-go's keeps to
// itself: who holds the lease that this process waits for, whether that is a
// process that will ever schedule this one's pods, and whether anybody ever held
// it at all.
//
// The identity that a process writes into the lease ends with the scheduler names
// that it serves, so that a process that waits can tell a replica of its own
// scheduler from another scheduler:
//
//	HOSTNAME_UUID_NAME[,NAME...]
//
// The part up to the UUID is what kube-scheduler writes. A host name may have underscores
// too, so an identity is read from its UUID.
package lease

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// ErrNeverHeld is that no process has ever held a lease: it is not there, or
// nothing was ever written into it.
var ErrNeverHeld = errors.New("no scheduler has ever held the lease")

// Lock is the lock of a leader election that tells who holds it. Its methods may
// be called concurrently.
type Lock struct {
	*resourcelock.LeaseLock

	serves     []string
	mustBeHeld bool
	// beforeRelease is called before the lease is given back; it may be nil.
	beforeRelease func(context.Context) error

	// mu guards what follows.
	mu sync.Mutex
	// seen is whether the lease was read or written, and leads whether this process held it then.
	seen, leads bool
	// holder is the identity that the lease had when it was last read or written,
	// other than this process's own; empty while it is free or this process holds it.
	holder string
	// held is whether somebody, perhaps this process, is known to have held the lease.
	// That the lease is deleted afterwards, as some do to force a fail-over, does not
	// change it.
	held bool
}

var _ resourcelock.Interface = &Lock{}

// New returns lock for a process that serves the given scheduler names, which it
// appends to lock's identity. With mustBeHeld the lock cannot be taken as long as
// nobody has held it before: Get answers with ErrNeverHeld.
func New(lock *resourcelock.LeaseLock, serves []string, mustBeHeld bool) *Lock {
	serves = slices.Sorted(slices.Values(serves))
	lock.LockConfig.Identity += separator + strings.Join(serves, ",")
	return &Lock{LeaseLock: lock, serves: serves, mustBeHeld: mustBeHeld}
}

// BeforeRelease has f called before the lease is given back, which is for the next
// process to lead at once. If f fails it is not given back: it runs out. It must be
// called before the lock is used.
func (l *Lock) BeforeRelease(f func(context.Context) error) { l.beforeRelease = f }

// Get implements resourcelock.Interface. It logs a holder that it had not seen.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if l.mustBeHeld && !l.wasHeld() && (apierrors.IsNotFound(err) || err == nil && neverHeld(record)) {
		return nil, nil, fmt.Errorf("%w %s", ErrNeverHeld, l.Describe())
	}
	if err == nil {
		l.observe(ctx, record)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, record)
	if err == nil {
		l.observe(ctx, &record)
	}
	return err
}

// Update implements resourcelock.Interface. A process that has taken the lease over
// only updates it, and no longer reads it. A record without a holder gives the lease back.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if err := l.mayRelease(ctx); err != nil {
			return fmt.Errorf("not giving the lease %s back: %w", l.Describe(), err)
		}
	}
	err := l.LeaseLock.Update(ctx, record)
	if err == nil {
		l.observe(ctx, &record)
	}
	return err
}

// mayRelease returns why the lease must not be given back: it was read last as another's,
// whom client-go would take it from, or beforeRelease says so.
func (l *Lock) mayRelease(ctx context.Context) error {
	if holder := l.Holder(); holder != "" {
		return fmt.Errorf("%s holds it", holder)
	}
	if l.beforeRelease == nil {
		return nil
	}
	return l.beforeRelease(ctx)
}

func (l *Lock) wasHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *Lock) observe(ctx context.Context, record *resourcelock.LeaderElectionRecord) {
	holder := record.HolderIdentity
	if holder == l.Identity() {
		holder = ""
	}
	l.mu.Lock()
	changed := holder != l.holder
	l.holder, l.seen, l.leads = holder, true, record.HolderIdentity == l.Identity()
	l.held = l.held || !neverHeld(record)
	l.mu.Unlock()
	if !changed || holder == "" {
		return
	}
	logger := klog.FromContext(ctx)
	if err := l.notReplica(holder); err != nil {
		logger.Error(err, "No pod is scheduled until the holder of the lease exits", "lease", l.Describe(), "holder", holder, "since", record.AcquireTime.Time)
		return
	}
	logger.Info("Standing by while another replica holds the lease", "lease", l.Describe(), "holder", holder, "since", record.AcquireTime.Time)
}

// Holder returns the identity of the process that this one waits for; empty while
// none is known to hold the lease, or this one does.
func (l *Lock) Holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder
}

// Waits returns an error, which names the holder, while this process waits for one
// that does not serve its pods: a process of another scheduler. A standby that
// waits for a replica of its own is no error.
func (l *Lock) Waits() error {
	if holder := l.Holder(); holder != "" {
		return l.notReplica(holder)
	}
	return nil
}

// notReplica is NotReplica of this process.
func (l *Lock) notReplica(holder string) error {
	return NotReplica(l.Describe(), holder, l.serves, deployment(Host(l.Identity())))
}

// NotReplica returns an error unless holder, who holds the lease, is a replica of the
// scheduler that serves the given names: one that serves a name of them too, or another
// pod of the same Deployment, whose profiles may be about to change. A holder that does
// not say what it serves is kube-scheduler, or a Berth from before identities said so.
func NotReplica(lease, holder string, serves []string, ofDeployment string) error {
	host, served := parse(holder)
	switch {
	case slices.ContainsFunc(served, func(name string) bool { return slices.Contains(serves, name) }):
		return nil
	case len(served) == 0 && slices.Contains(serves, corev1.DefaultSchedulerName):
		return nil
	case deployment(host) != "" && deployment(host) == ofDeployment:
		return nil
	}
	return fmt.Errorf("the lease %s is held by %s, which does not serve %s: give this scheduler a lease of its own (leaderElection.resourceName)",
		lease, holder, strings.Join(serves, ", "))
}

// Serves returns the scheduler names that the holder of a lease serves, by the identity
// that it wrote; nil if that does not say.
func Serves(identity string) []string {
	_, served := parse(identity)
	return served
}

// ServedBy returns the scheduler names that the holder of a lease serves. A holder that does
// not say so serves the name by which the lease of a scheduler goes: most are called as
// their component, kube-scheduler's serves default-scheduler. It is nil for a lease that
// is not known to be a scheduler's.
func ServedBy(l *coordinationv1.Lease) []string {
	switch served := Serves(ptr.Deref(l.Spec.HolderIdentity, "")); {
	case len(served) > 0:
		return served
	case l.Name == "kube-scheduler":
		return []string{corev1.DefaultSchedulerName}
	case strings.HasSuffix(l.Name, "scheduler"):
		return []string{l.Name}
	}
	return nil
}

// Term returns when a lease was renewed last, and for how long that counts; both are zero
// where the lease does not say.
func Term(l *coordinationv1.Lease) (renewed time.Time, counts time.Duration) {
	if l.Spec.RenewTime != nil {
		renewed = l.Spec.RenewTime.Time
	}
	return renewed, time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// Expired reports whether a lease with that [Term] has run out: its holder does not answer.
func Expired(renewed time.Time, counts time.Duration, now time.Time) bool {
	return now.Sub(renewed) > counts
}

// Host returns the host's name in an identity: of a pod, mostly the pod's.
func Host(identity string) string {
	host, _ := parse(identity)
	return host
}

const separator = "_"

// withUUID is an identity as kube-scheduler and this package write it.
var withUUID = regexp.MustCompile(`^(.*)_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:_(.*))?$`)

// parse splits an identity into the host's name and the scheduler names, none if
// it does not say. What stands in the place of the UUID may be something else, without
// underscores.
func parse(identity string) (host string, served []string) {
	var names string
	if parts := withUUID.FindStringSubmatch(identity); parts != nil {
		host, names = parts[1], parts[2]
	} else {
		parts := strings.Split(identity, separator)
		if last := len(parts) - 1; last > 1 {
			parts, names = parts[:last], parts[last]
		}
		host = strings.Join(parts[:max(1, len(parts)-1)], separator)
	}
	if names != "" {
		served = strings.Split(names, ",")
	}
	return host, served
}

// podOfDeployment is the name of a pod as a Deployment's ReplicaSet gives it: a hash of the
// template, and a suffix, each of the characters that Kubernetes takes for them.
var podOfDeployment = regexp.MustCompile(`^(.+)-[4-9bcdf]{6,10}-[2456789bcdfghj-np-tvwxz]{5}$`)

// deployment returns the name of the Deployment whose pod has the given name; empty for
// the name of anything else, such as a host's.
func deployment(pod string) string {
	if parts := podOfDeployment.FindStringSubmatch(pod); parts != nil {
		return parts[1]
	}
	return ""
}

// neverHeld tells a lease that somebody prepared from one that was given back.
func neverHeld(record *resourcelock.LeaderElectionRecord) bool {
	return record.HolderIdentity == "" && record.LeaderTransitions == 0 && record.AcquireTime.IsZero()
}

// CheckHeld returns ErrNeverHeld if nobody has ever held the lease of le, and
// another error if the API server did not say.
func CheckHeld(ctx context.Context, client kubernetes.Interface, le componentbaseconfig.LeaderElectionConfiguration) error {
	lock := &resourcelock.LeaseLock{Client: client.CoordinationV1()}
	lock.LeaseMeta.Namespace, lock.LeaseMeta.Name = le.ResourceNamespace, le.ResourceName
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && neverHeld(record) {
		return fmt.Errorf("%w %s", ErrNeverHeld, lock.Describe())
	}
	return err
}
