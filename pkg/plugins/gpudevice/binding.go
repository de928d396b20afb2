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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// firstRetry and maxRetry are the pauses between the questions to an API
	// server that gave no clear answer; they double from one to the other.
	firstRetry = 100 * time.Millisecond
	maxRetry   = 5 * time.Second
	// sendingFor is for how long the Binding is sent again, the same one.
	sendingFor = 30 * time.Second
	// settledAfter is how long after the last Binding was sent a pod without a
	// node is taken for one that it will not be written to any more: longer than
	// the API server works on a request (--request-timeout, one minute).
	settledAfter = 90 * time.Second
)

// Bind sends one Binding with the node and the annotations that say which devices
// each container was given: one write, so that no one ever sees the pod with the
// one and without the other. Pods without devices are left to the next binder.
//
// An answer that leaves open whether the Binding was written (a time-out, a lost
// connection, an internal error) is not taken for a failure. The pod keeps its
// devices while the API is asked, and the same Binding is sent again: whichever
// of the two is written, the pod gets what it was promised. The other one is
// refused, because the pod has a node then.
func (pl *GPUDevice) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if !asksForShares(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	h := pl.ledger.get(pod.UID)
	if h == nil || h.node != nodeName || h.annotations == nil {
		// It was deleted meanwhile, or seen bound. Never bind it without devices.
		return fwk.AsStatus(fmt.Errorf("binding pod %s: no devices of node %q are reserved for it", klog.KObj(pod), nodeName))
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: maps.Clone(h.annotations),
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	klog.FromContext(ctx).V(3).Info("Attempting to bind pod to node with devices", "node", klog.KRef("", nodeName))
	err := pl.sendBinding(ctx, binding)
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		return fwk.AsStatus(err)
	}
	if err := pl.resolve(ctx, pod, binding, err); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
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

// isRefusal reports whether the error says for certain that nothing was written.
// A conflict does not: what conflicts may be an earlier try of the same Binding,
// which the client repeats by itself if a server asks it to.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusConflict
}

// resolve finds out what became of a Binding that was answered by cause. It
// returns nil if the pod is bound as it says, and an error if it never will be or
// if ctx ends; in that case the pod keeps its devices.
func (pl *GPUDevice) resolve(ctx context.Context, pod *corev1.Pod, binding *corev1.Binding, cause error) error {
	logger := klog.FromContext(ctx)
	if !apierrors.IsConflict(cause) {
		pl.ledger.doubt(pod.UID, true)
		bindingsInDoubt.Inc()
		logger.Info("It is not known whether the pod was bound, asking the API server", "pod", klog.KObj(pod), "node", klog.KRef("", binding.Target.Name), "err", cause)
		pl.ledger.warn(pod, nil, reasonInDoubt, actionBinding, fmt.Sprintf(
			"The API server did not say whether it bound the pod to node %q. The pod keeps its devices there until that is clear. (%v)", binding.Target.Name, cause))
	}
	sent := pl.clock.Now()
	sendUntil := sent.Add(sendingFor)
	doubtful := !apierrors.IsConflict(cause)
	backoff := wait.Backoff{Duration: firstRetry, Factor: 2, Steps: 32, Cap: maxRetry}
	for {
		fate, err := pl.fateOf(ctx, binding)
		switch {
		case err != nil:
			logger.V(2).Info("Could not ask what became of the pod", "pod", klog.KObj(pod), "err", err)
		case fate == fateBound:
			logger.Info("The pod was bound after all", "pod", klog.KObj(pod), "node", klog.KRef("", binding.Target.Name))
			return nil
		case fate == fateLost, fate == fatePending && !doubtful, fate == fatePending && pl.clock.Since(sent) > settledAfter:
			pl.ledger.doubt(pod.UID, false)
			return cause
		case pl.clock.Now().Before(sendUntil):
			sent = pl.clock.Now()
			switch err := pl.sendBinding(ctx, binding); {
			case err == nil:
				return nil
			case !apierrors.IsConflict(err):
				// An earlier one may still be written: also a refusal settles nothing.
				cause = err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("binding pod %s to node %q: %w: %w", klog.KObj(pod), binding.Target.Name, context.Cause(ctx), cause)
		case <-pl.clock.After(backoff.Step()):
		}
	}
}

// fate is what became of a pod that was to be bound.
type fate uint8

const (
	// fatePending is a pod without a node.
	fatePending fate = iota
	// fateBound is a pod with the node and the annotations of the Binding.
	fateBound
	// fateLost is a pod that the Binding cannot be written to any more: it is gone,
	// being deleted, or was bound by something else.
	fateLost
)

// fateOf asks the API server, and not one of its caches, for the pod. It lists
// one pod by name, because the scheduler may list pods and not get them.
func (pl *GPUDevice) fateOf(ctx context.Context, binding *corev1.Binding) (fate, error) {
	list, err := pl.handle.ClientSet().CoreV1().Pods(binding.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, binding.Name).String(),
	})
	if err != nil {
		return fatePending, fmt.Errorf("listing pod %s/%s: %w", binding.Namespace, binding.Name, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case pod.Name != binding.Name || pod.UID != binding.UID:
			continue
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
			return fatePending, nil
		case pod.Spec.NodeName == binding.Target.Name && pod.Annotations[names.GPUAssignedAnnotation] == binding.Annotations[names.GPUAssignedAnnotation]:
			return fateBound, nil
		}
	}
	return fateLost, nil
}
