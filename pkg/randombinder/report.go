// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/eventnote"
)

// Reasons and actions of the events, kube-scheduler's own so that whoever looks
// for them finds ours.
const (
	reasonScheduled = "Scheduled"
	reasonFailed    = "FailedScheduling"
	actionBind      = "Binding"
	actionSchedule  = "Scheduling"
)

// reportScheduled writes the event of a pod that was bound.
func (b *Binder) reportScheduled(c choice) {
	how := fmt.Sprintf("picked at random from %d of %d nodes (--fit=%s)", c.eligible, c.nodes, b.options.Fit)
	if c.again {
		how = "picked at random; an earlier answer of the API server was lost"
	}
	b.recorder.Eventf(c.pod, nil, corev1.EventTypeNormal, reasonScheduled, actionBind, "%s",
		eventnote.Cut(fmt.Sprintf("Successfully assigned %s/%s to %s: %s", c.pod.Namespace, c.pod.Name, c.node, how)))
}

// reportError writes the event of a Binding that failed. The pod's condition is
// left alone: it is not unschedulable.
func (b *Binder) reportError(c choice, err error) {
	b.recorder.Eventf(c.pod, nil, corev1.EventTypeWarning, reasonFailed, actionSchedule, "%s",
		eventnote.Cut(fmt.Sprintf("binding to node %s failed, will try again: %v", c.node, err)))
}

// reportUnschedulable writes the event and the condition of a pod that no node
// may take.
func (b *Binder) reportUnschedulable(ctx context.Context, pod *corev1.Pod, message string) {
	b.recorder.Eventf(pod, nil, corev1.EventTypeWarning, reasonFailed, actionSchedule, "%s", eventnote.Cut(message))
	patch, needed := conditionPatch(pod, message)
	if !needed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	_, err := b.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		// A pod that changed or went meanwhile needs no condition; the next
		// attempt writes one.
		klog.FromContext(ctx).Error(err, "Failed to write the PodScheduled condition", "pod", klog.KObj(pod))
	}
}

// conditionPatch returns the patch that makes PodScheduled say False with the
// message, or false if it does. It names the resourceVersion that was looked at,
// so that it can never mark a pod that was bound in the meantime.
func conditionPatch(pod *corev1.Pod, message string) ([]byte, bool) {
	condition := corev1.PodCondition{
		Type:               corev1.PodScheduled,
		Status:             corev1.ConditionFalse,
		Reason:             corev1.PodReasonUnschedulable,
		Message:            message,
		ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.Now(),
	}
	for _, old := range pod.Status.Conditions {
		if old.Type != corev1.PodScheduled {
			continue
		}
		if old.Status == condition.Status && old.Reason == condition.Reason && old.Message == message {
			return nil, false
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	// Strings and times only: it cannot fail to encode.
	return patch, err == nil
}
