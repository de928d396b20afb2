// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// fenceRetry and maxFenceRetry are the pauses between the attempts to fence the pods that
	// are kept back; they double from one to the other.
	fenceRetry    = time.Second
	maxFenceRetry = time.Minute
)

// keptPods are the pods that could not be fenced. This process does not bind them until it
// has fenced them, which it tries again in the background.
//
// One that is too large for the fence is too large for a Binding too (smallestFence), and
// takes nothing from others. To any other, which a webhook or a policy holds back for
// example, a Binding of a former process may still be written, with any device of any
// node: labels and taints of a node, and what is there of other pods, may have been different
// when that process chose. So what such a pod requests counts as used on every device
// that has as much free (device.Usage.TakeAnywhere), until it is fenced, bound or gone.
// That is strict: where the former process has put it there was room for it beside all
// that was bound and on its way, and there still is, because nothing was placed since that
// did not leave as much. It is also all that is done for the case that no pod can be
// fenced: nothing fits then.
type keptPods struct {
	// mu guards what follows. It is not held while anything is asked or written.
	mu sync.Mutex
	// fenced are the pods that need not be fenced any more, until prepared.
	fenced map[types.UID]struct{}
	byUID  map[types.UID]*keptPod

	// count is the size of byUID, and requests what those may hold that may still be bound by
	// another process. Both are read without the lock.
	count    atomic.Int64
	requests atomic.Pointer[[]device.EqualRequests]
}

// keptPod is one of them.
type keptPod struct {
	pod *corev1.Pod
	// served is whether a profile of this instance serves the pod.
	served bool
	// request is nil for a pod that no process of this scheduler would bind.
	request *device.Request
	// err is why it was not fenced, and tries how often.
	err   error
	tries int
}

// Values of the label reason of the metric unfenced_pods.
const (
	unfencedTooLarge = "TooLarge"
	unfencedRefused  = "Refused"
)

// settled reports whether the pod was fenced, or is kept back.
func (k *keptPods) settled(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, fenced := k.fenced[uid]
	_, kept := k.byUID[uid]
	return fenced || kept
}

// forgetFenced forgets the pods that were fenced, where no more are to come.
func (k *keptPods) forgetFenced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fenced = nil
}

// get returns why the pod is kept back, nil if it is not.
func (k *keptPods) get(uid types.UID) error {
	if k.count.Load() == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept := k.byUID[uid]; kept != nil {
		return kept.err
	}
	return nil
}

// load returns what those request that may still be bound by another process.
func (k *keptPods) load() []device.EqualRequests {
	if requests := k.requests.Load(); requests != nil {
		return *requests
	}
	return nil
}

// settle takes note of which pods were fenced: failures are the errors of each.
func (c *allocationCache) settle(pods []*corev1.Pod, failures []error) {
	var told []*keptPod
	released, changed := false, false
	k := &c.kept
	k.mu.Lock()
	k.count.Add(1) // release is to wait for what is decided here
	if k.byUID == nil {
		k.byUID, k.fenced = map[types.UID]*keptPod{}, map[types.UID]struct{}{}
	}
	for i, pod := range pods {
		known := k.byUID[pod.UID]
		if failures[i] == nil || c.isOutOfReach(pod) {
			if !c.startup.prepared.Load() {
				k.fenced[pod.UID] = struct{}{}
			}
			if known != nil {
				delete(k.byUID, pod.UID)
				released, changed = true, true
			}
			continue
		}
		changed = true
		next := c.newKeptPod(pod, failures[i])
		if known != nil {
			next.tries += known.tries
		}
		k.byUID[pod.UID] = next
		released = released || known != nil && known.request != nil && next.request == nil
		if next.isNews(known) {
			told = append(told, next)
		}
	}
	if changed {
		c.keptChangedLocked()
	}
	k.count.Store(int64(len(k.byUID)))
	k.mu.Unlock()
	for _, kept := range told {
		c.reportKept(kept)
	}
	if released {
		c.wakeShares() // it may be scheduled, and what it may have held is free
	}
}

// isNews reports whether the owner of the pod does not know yet why it is kept back; known is
// what was known of it before, nil for nothing.
func (kept *keptPod) isNews(known *keptPod) bool {
	return kept.tries > 0 && (known == nil || known.tries == 0 || errors.Is(known.err, errTooLarge) != errors.Is(kept.err, errTooLarge))
}

// isOutOfReach reports whether no Binding is written to the pod any more, whatever came of the
// fence: it is gone, being deleted, or known to be bound. One that the informer's store has bound, and
// the handler has not seen, is not: the handler will release it when the cache has its devices.
func (c *allocationCache) isOutOfReach(pod *corev1.Pod) bool {
	current := c.podFromInformer(pod)
	if current == nil || current.DeletionTimestamp != nil {
		return true
	}
	h := c.get(pod.UID)
	return h != nil && !h.neverBound()
}

// newKeptPod returns the pod as one that could not be fenced.
func (c *allocationCache) newKeptPod(pod *corev1.Pod, err error) *keptPod {
	kept := &keptPod{pod: pod, err: err}
	if !errors.Is(err, errNotTried) && !errors.Is(err, errBound) {
		kept.tries = 1
	}
	reads := c.servedBy(pod)
	kept.served = reads != nil
	if plugins := c.sharedBy(); reads == nil && len(plugins) > 0 {
		reads = plugins[0]
	}
	if reads == nil || errors.Is(err, errTooLarge) {
		return kept
	}
	if request, err := device.ParsePod(pod, reads.nodeKeys); err == nil && request.Kind == device.RequestShares {
		kept.request = request
	}
	return kept
}

// keptChangedLocked publishes what byUID says. Equal requests are one: views are computed
// with them, and there may be thousands of pods.
func (c *allocationCache) keptChangedLocked() {
	k := &c.kept
	var requests []device.EqualRequests
	at := map[device.RequestKey]int{}
	tooLarge := 0
	for _, kept := range k.byUID {
		if errors.Is(kept.err, errTooLarge) {
			tooLarge++
		}
		if kept.request == nil {
			continue
		}
		key := kept.request.Key()
		i, ok := at[key]
		if !ok {
			i = len(requests)
			at[key] = i
			requests = append(requests, device.EqualRequests{Request: kept.request})
		}
		requests[i].Pods++
	}
	unfencedPods.WithLabelValues(unfencedTooLarge).Set(float64(tooLarge))
	unfencedPods.WithLabelValues(unfencedRefused).Set(float64(len(k.byUID) - tooLarge))
	k.count.Store(int64(len(k.byUID)))
	if old := k.requests.Swap(&requests); len(requests) > 0 || old != nil && len(*old) > 0 {
		c.raiseRevisions()
	}
}

// release forgets a pod that is kept back and to which no Binding can be written any more. Where it is
// bound, the cache has its allocation before.
func (c *allocationCache) release(uid types.UID) {
	k := &c.kept
	if k.count.Load() == 0 {
		return
	}
	k.mu.Lock()
	_, known := k.byUID[uid]
	if known {
		if h := c.get(uid); h != nil && !h.neverBound() {
			// The snapshot of a cycle that has begun does not show it.
			c.startup.lateBinding.Store(true)
		}
		delete(k.byUID, uid)
		c.keptChangedLocked()
	}
	k.mu.Unlock()
	if known {
		c.wakeShares() // what it may have held is free
	}
}

// reportKept tells why a pod waits, on that pod and in the log.
func (c *allocationCache) reportKept(kept *keptPod) {
	klog.FromContext(c.ctx).Info("Pod is held back: a former scheduler process may still bind it", "pod", klog.KObj(kept.pod), "err", kept.err)
	if !kept.served {
		return
	}
	reason := reasonNotFenced
	if errors.Is(kept.err, errTooLarge) {
		reason = reasonTooLarge
	}
	c.warn(kept.pod, nil, reason, actionBinding, keptText(kept.err))
}

// keptText is what the owner of a pod reads that is kept back because of err.
func keptText(err error) string {
	if errors.Is(err, errTooLarge) {
		return fmt.Sprintf("The pod cannot be scheduled: %v. Create it again with smaller annotations, args or env.", err)
	}
	return fmt.Sprintf("The pod waits until the API server lets the scheduler write to its status, which keeps a former scheduler process from binding it: %v. The scheduler tries again; look for a webhook or a policy on pods/status.", err)
}

// fenceKeptPods fences the pods that are kept back, again and again until there are none.
func (c *allocationCache) fenceKeptPods() {
	backoff := wait.Backoff{Duration: fenceRetry, Factor: 2, Jitter: 0.1, Steps: 8, Cap: maxFenceRetry}
	_ = backoff.DelayFunc().Until(c.ctx, false, true, func(ctx context.Context) (bool, error) {
		if _, err := c.fenceAll(ctx, c.kept.pods(c), laterPass); err != nil {
			klog.FromContext(ctx).V(2).Info("Could not fence the pods that are kept back", "err", err)
		}
		return c.kept.count.Load() == 0 || c.deposed.Load(), nil
	})
}

// pods returns the pods that are kept back as the informer has them, those first that were
// tried least.
func (k *keptPods) pods(c *allocationCache) []*corev1.Pod {
	k.mu.Lock()
	kept := make([]*keptPod, 0, len(k.byUID))
	for _, pod := range k.byUID {
		kept = append(kept, pod)
	}
	k.mu.Unlock()
	slices.SortFunc(kept, func(a, b *keptPod) int { return a.tries - b.tries })
	pods := make([]*corev1.Pod, 0, len(kept))
	for _, pod := range kept {
		current := c.podFromInformer(pod.pod)
		switch {
		case c.isOutOfReach(pod.pod):
			c.release(pod.pod.UID)
		case current != nil && c.mayBeBoundByAnother(current):
			pods = append(pods, current)
		default: // The handler releases it, when what it holds is known.
		}
	}
	return pods
}
