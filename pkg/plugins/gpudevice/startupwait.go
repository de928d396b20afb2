// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

const (
	// startupTimeout is how long one attempt may take.
	startupTimeout = 30 * time.Second
	// startupRetry is how long the next one waits after a failure.
	startupRetry = 5 * time.Second
	// startupPoll is how often the informer is looked at meanwhile.
	startupPoll = 20 * time.Millisecond
	// checkWatchSeconds is the time-out of the watch that asks what the informer
	// has missed. The API server sends a bookmark two seconds before the end.
	checkWatchSeconds = 3
	// activePods is the field selector of the scheduler's pod informer.
	activePods = "status.phase!=Succeeded,status.phase!=Failed"
)

// startupWait holds pods with a share back, in any process, with or without leader
// election, until its pod informer knows every pod that was bound before, and until what a
// former process may still have on its way is refused (allocationCache.fencePods). Prepare
// has that done when the process begins to schedule. A cycle never waits for it: its pod is
// turned away at once, and activated when it is done.
//
// The informers of a standby run all the time, but after the API server was
// restarted a reflector waits for up to a minute before it connects again. A
// standby that becomes leader in that minute would hand out devices that its
// predecessor has bound since.
type startupWait struct {
	// done is whether a snapshot has shown all that was known when prepared became true.
	done atomic.Bool
	// prepared is whether waitForSyncAndFence has succeeded.
	prepared atomic.Bool
	// version is what the informer's store had reached by then. It is written before prepared.
	version string
	// expected is whether Prepare will be called; see PrepareLater.
	expected atomic.Bool
	// lateBinding is whether a pod that was kept back was seen bound, and no snapshot yet that
	// shows all that is bound.
	lateBinding atomic.Bool
	// turnedAway is whether a pod was turned away before.
	turnedAway atomic.Bool

	// mu guards what follows. It is not held while anything is asked or written.
	mu sync.Mutex
	// attempt is closed at the end of the attempt that is under way; nil if there is none.
	attempt chan struct{}
	// err is why the last attempt failed, and retryAt when a cycle may start another one.
	err     error
	retryAt time.Time
}

// errPreparing is why pods with a share wait at first.
var errPreparing = errors.New("this scheduler process has just started and is still reading earlier allocations; pods that ask for shares of devices wait until it is done")

// PrepareLater says that Prepare will be called when the process begins to schedule. Until
// then pods with shares stay out of the queue, and cost no attempts.
func (pl *GPUDevice) PrepareLater() { pl.allocations.startup.expected.Store(true) }

// Prepare does what pods with a share wait for: it makes sure that this
// process knows every pod that others have bound, and that what they have on their way is
// refused. Call it when the process begins to schedule: no earlier, because what another
// process binds after it is not known. It tries until it succeeds; the error is ctx's. No
// single pod holds it up. It may run beside cycles, and several times: all plugins of an
// informer factory share the work. Where it is not called, the first pod with a share
// starts it.
func (pl *GPUDevice) Prepare(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, startupRetry, true, func(ctx context.Context) (bool, error) {
		err := pl.allocations.prepare(ctx)
		if err != nil {
			klog.FromContext(ctx).Error(err, "No share of a device can be given yet, trying again", "retryAfter", startupRetry)
		}
		return err == nil, nil
	})
}

// Ready returns why this process is not ready although it has prepared: another one has
// taken over from it. It goes on with pods without shares. It does not end: where two
// processes run without an election, each new one would end the other without end.
func (pl *GPUDevice) Ready() error {
	if pl.allocations.deposed.Load() {
		return errFenced
	}
	return nil
}

// PreEnqueue keeps a pod with a share out of the queue while it cannot be bound for a reason
// that no event of the cluster changes. An attempt would end with a write to the pod's
// status, in the scheduling goroutine, and what hinders the fence hinders that too.
func (pl *GPUDevice) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	c := pl.allocations
	if c.client == nil || !device.HasShareRequest(pod) {
		return nil
	}
	if c.startup.expected.Load() && c.turnAway() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, errPreparing.Error())
	}
	return c.whyKeptBack(pod.UID)
}

// turnAway reports whether pods with shares have to wait for prepare.
func (c *allocationCache) turnAway() bool {
	if c.startup.prepared.Load() {
		return false
	}
	// In this order: whoever is not found in time to be activated finds that all is prepared.
	c.startup.turnedAway.Store(true)
	return !c.startup.prepared.Load()
}

// whyKeptBack returns why this process does not bind the pod, now or ever.
func (c *allocationCache) whyKeptBack(pod types.UID) *fwk.Status {
	if c.deposed.Load() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, errFenced.Error())
	}
	if err := c.kept.get(pod); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, messages.Escape(keptText(err)))
	}
	return nil
}

// whyNoShare returns why a cycle must not give the pod a share, nil if it may: all that was
// bound before the process became leader is in nodes, the snapshot of this cycle. It is a
// few atomic loads in nearly all cycles.
func (c *allocationCache) whyNoShare(pod types.UID, nodes []fwk.NodeInfo) *fwk.Status {
	s := &c.startup
	if c.client == nil {
		return nil // without an API server nobody can have bound anything
	}
	if late := s.lateBinding.Swap(false); late || !s.done.Load() {
		if c.turnAway() {
			return fwk.AsStatus(c.prepareInBackground())
		}
		// The informer is up to date. The snapshot may be older, and was made from what
		// another handler had been told.
		if missing := c.missingFromSnapshot(nodes); missing != nil {
			if late {
				s.lateBinding.Store(true)
			}
			klog.FromContext(c.ctx).V(2).Info("Pod with a share of a device is not in the snapshot yet", "pod", klog.KObj(missing))
			return fwk.AsStatus(errOldSnapshot)
		}
		s.done.Store(true)
	}
	return c.whyKeptBack(pod)
}

// errOldSnapshot is why a pod is tried again whose attempt began too early.
var errOldSnapshot = errors.New("a pod with a share of a device is not in the snapshot of this attempt yet: the next attempt sees it")

// prepareInBackground has prepare run beside this cycle, unless it does or failed just now,
// and returns why pods have to wait.
func (c *allocationCache) prepareInBackground() error {
	s := &c.startup
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil && !c.clock.Now().Before(s.retryAt) {
		go func() { _ = c.prepare(c.ctx) }() // the next cycle reads the error
	}
	if s.err != nil {
		return fmt.Errorf("%w: %w", errPreparing, s.err)
	}
	return errPreparing
}

// prepare is waitForSyncAndFence, once, and one at a time.
func (c *allocationCache) prepare(ctx context.Context) error {
	s := &c.startup
	if c.client == nil {
		return nil
	}
	s.mu.Lock()
	if attempt := s.attempt; attempt != nil {
		s.mu.Unlock()
		select {
		case <-attempt:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.err
	}
	if s.prepared.Load() {
		s.mu.Unlock()
		return nil
	}
	s.attempt = make(chan struct{})
	s.mu.Unlock()

	err := c.waitForSyncAndFence(ctx)

	s.mu.Lock()
	s.err, s.retryAt = err, c.clock.Now().Add(startupRetry)
	if err == nil {
		s.version = c.informerVersion()
		s.prepared.Store(true)
		c.kept.forgetFenced()
	}
	close(s.attempt)
	s.attempt = nil
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.turnedAway.Load() {
		c.activateShares()
	}
	if c.kept.count.Load() > 0 {
		go c.fenceKeptPods()
	}
	return nil
}

// activateShares sends the pods with shares to the active queue.
func (c *allocationCache) activateShares() {
	for _, pl := range c.sharedBy() {
		pl.activate(device.HasShareRequest)
	}
}

// waitForSyncAndFence waits until the informers know all that was bound before, and fences what a
// former process may still have on its way. It depends on the API server and the informers, and on no
// single pod.
func (c *allocationCache) waitForSyncAndFence(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	start := c.clock.Now()
	timeout, cancel := context.WithTimeoutCause(ctx, startupTimeout, fmt.Errorf("no answer within %v", startupTimeout))
	defer cancel()
	if err := plugin.WaitForSync(timeout, c.syncedCheckers()...); err != nil {
		return fmt.Errorf("waiting for the first lists of pods and ResourceSlices: %w", err)
	}
	want, err := c.serverVersion(timeout)
	if err != nil {
		return fmt.Errorf("waiting until every pod with devices is known: %w", err)
	}
	c.epoch = cmp.Or(c.epoch, want)
	fresh := c.fenceAndCatchUp(timeout)
	if !fresh {
		if fresh, err = c.waitUntilFresh(timeout, want); err != nil {
			return fmt.Errorf("waiting until every pod with devices is known: %w", err)
		}
	}
	if fresh {
		// What has become known meanwhile.
		if _, err := c.fencePods(timeout); err != nil {
			return fmt.Errorf("waiting until Bindings of a former scheduler process are refused: %w", err)
		}
	}
	logger.V(2).Info("Every pod with a share of a device is known", "waited", c.clock.Since(start))
	return nil
}

// fenceAndCatchUp fences the pods that are known to be pending, perhaps some too many, and reports
// whether the informer has seen it: it then knows all that was bound before. Where pods wait
// it is quicker than waitUntilFresh, which has to wait for a bookmark.
func (c *allocationCache) fenceAndCatchUp(ctx context.Context) bool {
	have := c.informerVersion()
	if _, ok := isBehind(have, have); !ok {
		return false // no API server speaks, see waitUntilFresh
	}
	written, err := c.fencePods(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not fence all pods before the informer is known to be up to date", "err", err)
	}
	return written && err == nil
}

// syncedCheckers returns what tells that every pod and every ResourceSlice of the first
// lists was seen.
func (c *allocationCache) syncedCheckers() []cache.DoneChecker {
	c.mu.Lock()
	defer c.mu.Unlock()
	checkers := []cache.DoneChecker{c.synced}
	for _, pl := range c.plugins {
		if pl.publishedSlices.synced != nil {
			checkers = append(checkers, pl.publishedSlices.synced)
		}
	}
	return checkers
}

// missingFromSnapshot returns a pod that holds a share according to the informer and is not on
// its node according to the snapshot, or nil.
func (c *allocationCache) missingFromSnapshot(nodes []fwk.NodeInfo) *corev1.Pod {
	shown := map[string]map[types.UID]struct{}{}
	for _, nodeInfo := range nodes {
		pods := map[types.UID]struct{}{}
		for _, podInfo := range nodeInfo.GetPods() {
			pods[podInfo.GetPod().UID] = struct{}{}
		}
		shown[nodeInfo.Node().Name] = pods
	}
	for _, obj := range c.pods.GetStore().List() {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" || podphase.IsTerminated(pod) || !device.HasShareRequest(pod) {
			continue
		}
		pods, ok := shown[pod.Spec.NodeName]
		if !ok {
			continue // its node is gone, or not there yet
		}
		if _, ok := pods[pod.UID]; !ok {
			return pod
		}
	}
	return nil
}

// serverVersion is the version that the API server's store has, by a consistent read.
func (c *allocationCache) serverVersion(ctx context.Context) (string, error) {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("listing pods: %w", err)
	}
	return list.ResourceVersion, nil
}

// waitUntilFresh waits until the informer has seen what there was in version want of the API
// server's store. It reports whether resource versions can be compared.
//
// The version of a list is that of the whole store, and the informer reaches it
// only with the next change of a pod, or a bookmark, which takes a minute. So
// whether the informer is behind is asked: a watch from where it stands delivers
// what it has not seen, and then a bookmark.
func (c *allocationCache) waitUntilFresh(ctx context.Context, want string) (bool, error) {
	logger := klog.FromContext(ctx)
	for {
		have := c.informerVersion()
		behind, ok := isBehind(have, want)
		if !ok {
			// No API server speaks: a simulation or a test.
			logger.V(4).Info("Resource versions cannot be compared; assuming that the informer is up to date", "informer", have, "server", want)
			return false, nil
		}
		if !behind {
			return true, nil
		}
		missed, err := c.newestMissedVersion(ctx, have, want)
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			// Too far behind for a watch: the informer has to list again.
			missed = want
		case err != nil:
			return false, fmt.Errorf("watching pods from version %s: %w", have, err)
		case missed == "":
			return true, nil
		}
		logger.Info("Waiting for the pod informer to catch up before the first device is allocated", "informer", have, "server", missed)
		if err := c.pollForProgress(ctx, have, missed); err != nil {
			return false, err
		}
	}
}

// pollForProgress returns when the informer has reached the version, or has moved
// at all where it has to list again.
func (c *allocationCache) pollForProgress(ctx context.Context, have, version string) error {
	err := wait.PollUntilContextCancel(ctx, startupPoll, true, func(context.Context) (bool, error) {
		now := c.informerVersion()
		behind, _ := isBehind(now, version)
		return !behind || now != have, nil
	})
	if err != nil {
		return fmt.Errorf("the pod informer is at version %s and the API server at %s: %w", c.informerVersion(), version, context.Cause(ctx))
	}
	return nil
}

// informerVersion is the version that the informer's store has reached, or where client-go's
// gate AtomicFIFO is off its reflector, whose news may wait for the store for a moment.
func (c *allocationCache) informerVersion() string {
	if version := c.pods.GetStore().LastStoreSyncResourceVersion(); version != "" {
		return version
	}
	return c.pods.LastSyncResourceVersion()
}

// newestMissedVersion returns the version of the last change of a pod after have that the API
// server knows, or "" if there is none up to want.
func (c *allocationCache) newestMissedVersion(ctx context.Context, have, want string) (string, error) {
	seconds := int64(checkWatchSeconds)
	w, err := c.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{
		ResourceVersion: have, AllowWatchBookmarks: true, TimeoutSeconds: &seconds, FieldSelector: activePods,
	})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	last := ""
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Error:
			return "", apierrors.FromObject(event.Object)
		case watch.Bookmark:
			if pod, ok := event.Object.(*corev1.Pod); ok {
				if behind, _ := isBehind(pod.ResourceVersion, want); !behind {
					return last, nil
				}
			}
		default:
			if pod, ok := event.Object.(*corev1.Pod); ok {
				last = pod.ResourceVersion
				if behind, _ := isBehind(last, want); !behind {
					return last, nil
				}
			}
		}
		if last != "" {
			// Whatever else there is: the informer has to get here first.
			if behind, _ := isBehind(c.informerVersion(), last); behind {
				return last, nil
			}
		}
	}
	if last != "" {
		return last, nil
	}
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	// The watch ended without a bookmark that is new enough: ask again.
	return have, nil
}

// isBehind reports whether version a is lower than b, and whether they can be
// compared.
func isBehind(a, b string) (behind, ok bool) {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return order < 0, err == nil
}
