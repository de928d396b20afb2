// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// firstRetry and maxRetry are the pauses between the questions to an API
	// server that gave no clear answer; they double from one to the other.
	firstRetry = 100 * time.Millisecond
	maxRetry   = 5 * time.Second
	// resendTimeout is for how long the Binding is sent again; Bind may wait longer. A pod without a node is
	// given up after that, as soon as none of them can be written any more.
	resendTimeout = 30 * time.Second
)

// Bind sends one Binding with the node and the annotations that say which devices
// each container was given: one write, so that no one ever sees the pod with the
// one and without the other. Pods without devices are left to the next binder.
//
// The Binding is for the version of the pod that the informer has: it is refused if
// another scheduler process has fenced the pod meanwhile (allocationCache.fencePods), and also if
// anything else has changed it, a label for example. Then Bind looks who it was, in the
// informer if that knows of the change and else at the API server, and unless it was a
// later process sends the Binding for the new version.
//
// An answer that leaves open whether the Binding was written (a time-out, a lost
// connection, an internal error) is not taken for a failure. The pod keeps its
// devices while the API is asked, and the same Binding is sent again: whichever
// of the two is written, the pod gets what was assumed for it. The other one is
// refused, because the pod has a node then.
func (pl *GPUDevice) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if !device.HasShareRequest(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	h, informerPod := pl.allocations.get(pod.UID), pl.allocations.podFromInformer(pod)
	if h == nil || h.node != nodeName || h.annotations == nil || informerPod == nil {
		// It was deleted meanwhile, or seen bound. Never bind it without devices.
		return fwk.AsStatus(fmt.Errorf("binding pod %s: no devices of node %q are reserved for it", klog.KObj(pod), nodeName))
	}
	if err := pl.allocations.heedToken(informerPod); err != nil {
		return fwk.AsStatus(fmt.Errorf("binding pod %s: %w", klog.KObj(pod), err))
	}
	if !pl.offers(nodeName) {
		return fwk.AsStatus(fmt.Errorf("binding pod %s: %w", klog.KObj(pod), errNotOffered))
	}
	binding := h.binding(informerPod)
	klog.FromContext(ctx).V(3).Info("Attempting to bind pod to node with devices", "node", klog.KRef("", nodeName))
	err := pl.sendBinding(ctx, binding)
	if err == nil {
		return nil
	}
	if err := pl.resolve(ctx, pod, h, binding, err); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

// binding returns the Binding that gives the pod what was assumed for it, if the pod is
// still at that version.
func (h *podAllocation) binding(version *corev1.Pod) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.pod.Namespace, Name: h.pod.Name, UID: h.pod.UID, ResourceVersion: version.ResourceVersion,
			Annotations: maps.Clone(h.annotations),
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: h.node},
	}
}

// sendBinding sends the Binding, through the scheduler's queue of API calls where
// there is one.
func (pl *GPUDevice) sendBinding(ctx context.Context, binding *corev1.Binding) error {
	cacher := pl.handle.APICacher()
	if cacher == nil {
		return pl.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	finished, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, finished)
}

// isClientError reports whether the API server has answered a Binding with an error of the
// 4xx class, other than 408. That does not mean that nothing was written: the client repeats a request by itself where a server
// asks it to (an error of the 5xx class, or 429, with Retry-After), and this may
// be the answer to the second one. A conflict in particular may be one with an earlier
// try of the same Binding.
func isClientError(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout
}

// resolve finds out what became of a Binding that was answered by cause, and sends it
// again where that makes sense. It returns nil if the pod is bound as it says, and an
// error if it never will be or if ctx ends; in that case the pod keeps its devices.
func (pl *GPUDevice) resolve(ctx context.Context, pod *corev1.Pod, h *podAllocation, binding *corev1.Binding, cause error) error {
	logger := klog.FromContext(ctx)
	u := &unresolved{binding: binding, cause: cause, unknown: !isClientError(cause), sendUntil: pl.clock.Now().Add(resendTimeout)}
	if u.unknown {
		pl.allocations.setBindingUnknown(pod.UID, true)
		bindingsUnknown.Inc()
		logger.Info("It is not known whether the pod was bound; asking the API server", "pod", klog.KObj(pod), "node", klog.KRef("", binding.Target.Name), "err", cause)
		pl.allocations.warn(pod, nil, reasonBindingUnknown, actionBinding, fmt.Sprintf(
			"The API server did not say whether it bound the pod to node %q. The pod's devices there stay allocated until that is known. (%v)", binding.Target.Name, cause))
	}
	backoff := wait.Backoff{Duration: firstRetry, Factor: 2, Steps: 32, Cap: maxRetry}
	for {
		outcome, current, err := outcomePending, pl.allocations.newerVersion(u, pod), error(nil)
		if current == nil {
			outcome, current, err = pl.outcomeOf(ctx, pod, u.binding)
		}
		var settled bool
		switch {
		case err != nil:
			logger.V(2).Info("Could not ask what became of the pod", "pod", klog.KObj(pod), "err", err)
		case outcome == outcomeBound:
			logger.Info("The pod was bound after all", "pod", klog.KObj(pod), "node", klog.KRef("", binding.Target.Name))
			return nil
		case outcome == outcomeNotBindable:
			settled, err = true, u.cause
		default:
			settled, err = pl.sendAgain(ctx, pod, h, u, current)
		}
		if settled {
			if err != nil {
				pl.allocations.setBindingUnknown(pod.UID, false)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("binding pod %s to node %q: %w: %w", klog.KObj(pod), binding.Target.Name, context.Cause(ctx), u.cause)
		case <-pl.clock.After(backoff.Step()):
		}
	}
}

// unresolved is a Binding of which it is not settled what became of it.
type unresolved struct {
	// binding is the one that was sent last.
	binding *corev1.Binding
	// cause is why it is not known to be written.
	cause error
	// unknown is whether a Binding that was sent may still be written.
	unknown bool
	// sendUntil is when no further one is sent.
	sendUntil time.Time
}

// newerVersion returns the pending pod as the informer has it if that is why the Binding was in
// conflict: mostly this scheduler has itself just written the pod's status, as it does for
// the members of a gang that come before the last. Then the API server need not be asked:
// should there be more to know, the next Binding is refused too.
func (c *allocationCache) newerVersion(u *unresolved, pod *corev1.Pod) *corev1.Pod {
	if u.unknown || !apierrors.IsConflict(u.cause) {
		return nil
	}
	now := c.podFromInformer(pod)
	if now == nil || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
		return nil
	}
	if older, ok := isBehind(u.binding.ResourceVersion, now.ResourceVersion); !ok || !older {
		return nil
	}
	return now
}

// sendAgain sends the Binding of a pod that has no node yet once more, unless that makes
// no sense any more: current is the pod as the API server has it. It reports whether the
// matter is settled, and then returns nil if the pod is bound.
func (pl *GPUDevice) sendAgain(ctx context.Context, pod *corev1.Pod, h *podAllocation, u *unresolved, current *corev1.Pod) (settled bool, err error) {
	// A Binding for a version that the pod no longer has is not written any more.
	stale := current.ResourceVersion != u.binding.ResourceVersion
	u.unknown = u.unknown && !stale
	expired := !pl.clock.Now().Before(u.sendUntil) || !pl.offers(h.node)
	switch {
	case expired && u.unknown:
		// The pod may get other devices next: nothing that was sent may be written then.
		_, err := pl.allocations.fencePod(ctx, pl.allocations.client, current)
		if errors.Is(err, errTooLarge) {
			return true, u.cause
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Could not rule out that the Binding is still written", "pod", klog.KObj(pod), "err", err)
		}
		return false, nil
	case expired, !u.unknown && (!stale || !apierrors.IsConflict(u.cause)):
		return true, u.cause
	}
	if err := pl.allocations.heedToken(current); err != nil {
		if u.unknown {
			return false, nil // the Binding may still be written, so the devices stay allocated
		}
		return true, fmt.Errorf("binding pod %s: %w: %w", klog.KObj(pod), err, u.cause)
	}
	u.binding = h.binding(current)
	err = pl.sendBinding(ctx, u.binding)
	if err == nil {
		return true, nil
	}
	if !u.unknown || !apierrors.IsConflict(err) {
		u.cause = err
	}
	u.unknown = u.unknown || !isClientError(err)
	return false, nil
}

// outcome is what became of a pod that was to be bound.
type outcome uint8

const (
	// outcomePending is a pod without a node.
	outcomePending outcome = iota
	// outcomeBound is a pod with the node and the annotations of the Binding.
	outcomeBound
	// outcomeNotBindable is a pod that the Binding cannot be written to any more: it is gone,
	// being deleted, or was bound by something else.
	outcomeNotBindable
)

// outcomeOf asks the API server what became of a Binding.
func (pl *GPUDevice) outcomeOf(ctx context.Context, pod *corev1.Pod, binding *corev1.Binding) (outcome, *corev1.Pod, error) {
	current, err := currentPod(ctx, pl.handle.ClientSet(), pod)
	switch {
	case err != nil:
		return outcomePending, nil, err
	case current == nil:
	case current.Spec.NodeName == "" && current.DeletionTimestamp == nil:
		return outcomePending, current, nil
	case current.Spec.NodeName == binding.Target.Name && current.Annotations[names.GPUAssignedAnnotation] == binding.Annotations[names.GPUAssignedAnnotation]:
		return outcomeBound, current, nil
	}
	return outcomeNotBindable, nil, nil
}
