// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// fenceWorkers is how many pods are fenced at a time.
const fenceWorkers = 16

// fencePods makes sure that no Binding of a former process is written any more to a pod
// that is pending now: it may be on its way still, for any time, with devices that
// only that process knew to be assumed.
//
// Every Binding carries the resource version of the pod as a precondition. fence
// changes the resource version of each pending pod with a share, by a condition in its
// status that names this process; whatever was sent before is then refused. That is
// one small write for each of them, once in the life of a process, and none later. It
// makes no assumption about time, and needs no cooperation of a process that may be
// dead.
//
// The pods are those of the informer's store. Once that has reached what the API server
// had when this process became leader, they are all: of pods that came later a former
// leader knows nothing. When fencePods reports that it has written, the store has all versions
// that it wrote, and what was written before; pods that turned out to be bound are in there
// with their node.
func (c *allocationCache) fencePods(ctx context.Context) (written bool, err error) {
	logger := klog.FromContext(ctx)
	start := c.clock.Now()
	var pods []*corev1.Pod
	for _, obj := range c.pods.GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && c.mayBeBoundByAnother(pod) {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return false, nil
	}
	client, err := c.fenceClient()
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var failures []error
	var newest string
	workqueue.ParallelizeUntil(ctx, fenceWorkers, len(pods), func(i int) {
		fenced, err := c.fencePod(ctx, client, pods[i])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failures = append(failures, err)
			return
		}
		c.startup.fenced[pods[i].UID] = struct{}{}
		if fenced != nil && !podphase.IsTerminated(fenced) { // the informer is not told of those
			if behind, _ := isBehind(newest, fenced.ResourceVersion); behind || newest == "" {
				newest = fenced.ResourceVersion
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("%d of %d pending pods are fenced so far: %w", len(c.startup.fenced), len(pods), context.Cause(ctx))
	}
	if len(failures) > 0 {
		return false, fmt.Errorf("%d of %d pending pods could not be fenced: %w", len(failures), len(pods), failures[0])
	}
	logger.V(2).Info("Bindings of a former scheduler process are refused from now on", "pods", len(pods), "took", c.clock.Since(start))
	if newest == "" {
		return false, nil // all of them are gone
	}
	return true, c.waitForVersion(ctx, newest)
}

// waitForVersion returns when the informer's store has a version and all before it, not only the
// first news: a Binding that was written before its pod was fenced is known by then.
func (c *allocationCache) waitForVersion(ctx context.Context, version string) error {
	for {
		have := c.informerVersion()
		if behind, _ := isBehind(have, version); !behind {
			return nil
		}
		if err := c.pollForProgress(ctx, have, version); err != nil {
			return err
		}
	}
}

// mayBeBoundByAnother reports whether a Binding from a former process of this scheduler
// could still be written to the pod, and was not fenced yet. The API server binds none
// that is being deleted or has scheduling gates, and what is gated was not scheduled.
func (c *allocationCache) mayBeBoundByAnother(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || !device.HasShareRequest(pod) {
		return false
	}
	if _, done := c.startup.fenced[pod.UID]; done {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pl := range c.plugins {
		if pl.handle.ProfileName() == pod.Spec.SchedulerName {
			return true
		}
	}
	return false
}

// fenceClient returns a client without the scheduler's client-side rate limit, which
// would hold up the first share by a minute and more where thousands of pods wait.
func (c *allocationCache) fenceClient() (kubernetes.Interface, error) {
	if c.config == nil {
		return c.client, nil
	}
	config := rest.CopyConfig(c.config)
	config.QPS, config.RateLimiter = -1, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client to fence pods: %w", err)
	}
	return client, nil
}

// fencePod changes the resource version of a pod and returns the pod as it is then, or nil
// if it is gone. Bindings with an older one are refused from then on.
func (c *allocationCache) fencePod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (*corev1.Pod, error) {
	// Several processes, and several times: no two of these writes are equal.
	token := fmt.Sprintf("%s/%d", c.identity, c.fenceWrites.Add(1))
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: names.GPUFenceCondition, Status: corev1.ConditionTrue, Reason: "BindingsBeforeAreRefused", Message: token,
			LastTransitionTime: metav1.NewTime(c.clock.Now()),
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	fenced, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsConflict(err) && c.podFromInformer(pod) == nil:
		return nil, nil // another one has its name
	case err != nil:
		return nil, fmt.Errorf("changing condition %s of pod %s: %w", names.GPUFenceCondition, klog.KObj(pod), err)
	}
	return fenced, nil
}

// fenceTokenOf returns the token that the last fencePod wrote into a pod's condition, "" if
// none did.
func fenceTokenOf(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == names.GPUFenceCondition {
			return pod.Status.Conditions[i].Message
		}
	}
	return ""
}

// errFenced is the cause where the pod was fenced after its devices were assumed.
var errFenced = errors.New("another scheduler process has taken over this pod")
