// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// fencePass says how pods are fenced.
type fencePass struct {
	// workers is how many are at a time.
	workers int
	// perPod is how long the API server may take for one of them, and total for all of them
	// together. The others are kept back.
	perPod, total time.Duration
}

var (
	// firstPass is while all shares wait.
	firstPass = fencePass{workers: 32, perPod: 3 * time.Second, total: 10 * time.Second}
	// laterPass is in the background. Its writes take longer than any webhook may, and are few at a
	// time: of large pods a few keep an API server busy.
	laterPass = fencePass{workers: 8, perPod: 45 * time.Second, total: time.Hour}
)

const (
	// fenceTries is how often a pod is fenced anew that others change meanwhile.
	fenceTries = 4
	// fenceReason is the reason of the condition.
	fenceReason = "BindingsBeforeAreRefused"
)

// fencePods makes sure that no Binding of a former process is written any more to a pod
// that is pending now: it may be on its way still, for any time, with devices that
// only that process knew to be assumed.
//
// Every Binding carries the resource version of the pod as a precondition. fencePod
// changes the resource version of each pending pod with a share; whatever was sent before
// is then refused. That is one small write for each of them, once in the life of a
// process, and none later. It makes no assumption about time, and needs no cooperation of
// a process that may be dead.
//
// The pods are those of the informer's store. Once that has reached what the API server
// had when this process became leader, they are all: of pods that came later a former
// leader knows nothing. They include pods of a schedulerName that no profile serves: the
// former process may have had such a profile. When fencePods reports that it has written,
// the store has all versions that it wrote, and what was written before; pods that turned
// out to be bound are in there with their node.
//
// A pod that cannot be fenced is kept back (keptPods), and stops no other.
func (c *allocationCache) fencePods(ctx context.Context) (written bool, err error) {
	pods := c.toFence()
	logger, start := klog.FromContext(ctx), c.clock.Now()
	newest, err := c.fenceAll(ctx, pods, firstPass)
	if err != nil || newest == "" {
		return false, err
	}
	logger.V(2).Info("Bindings of a former scheduler process are refused from now on", "pods", len(pods), "took", c.clock.Since(start))
	return true, c.waitForVersion(ctx, newest)
}

// toFence returns the pods of the informer's store that were not fenced yet.
func (c *allocationCache) toFence() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range c.pods.GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && c.mayBeBoundByAnother(pod) && !c.kept.settled(pod.UID) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// fenceAll fences the pods, and keeps back those for which it fails. It returns the newest
// of the versions that it has written, "" if it has written none.
func (c *allocationCache) fenceAll(ctx context.Context, pods []*corev1.Pod, how fencePass) (newest string, err error) {
	if len(pods) == 0 {
		return "", nil
	}
	client, err := c.fenceClient()
	if err != nil {
		return "", err
	}
	pass, cancel := context.WithTimeoutCause(ctx, how.total, errNotTried)
	defer cancel()
	var mu sync.Mutex
	failures := make([]error, len(pods))
	for i := range failures {
		failures[i] = errNotTried
	}
	workqueue.ParallelizeUntil(pass, how.workers, len(pods), func(i int) {
		one, cancel := context.WithTimeoutCause(pass, how.perPod, fmt.Errorf("no answer within %v", how.perPod))
		defer cancel()
		fenced, err := c.fencePod(one, client, pods[i])
		c.settle(pods[i:i+1], []error{err}) // it does not wait for those that take longer
		mu.Lock()
		defer mu.Unlock()
		failures[i] = err
		if fenced != nil && !podphase.IsTerminated(fenced) { // the informer is not told of those
			if behind, _ := isBehind(newest, fenced.ResourceVersion); behind || newest == "" {
				newest = fenced.ResourceVersion
			}
		}
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var left []*corev1.Pod
	for i, err := range failures {
		if errors.Is(err, errNotTried) {
			left = append(left, pods[i])
		}
	}
	c.settle(left, slices.Repeat([]error{errNotTried}, len(left)))
	if c.deposed.Load() {
		return "", errFenced
	}
	return newest, nil
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
// could still be written to the pod. The API server binds none that is being deleted or has
// scheduling gates, and what is gated was not scheduled.
func (c *allocationCache) mayBeBoundByAnother(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && !podphase.IsTerminated(pod) && device.HasShareRequest(pod)
}

// servedBy returns the plugin of the pod's profile, nil if no profile of this instance
// serves the pod.
func (c *allocationCache) servedBy(pod *corev1.Pod) *GPUDevice {
	for _, pl := range c.sharedBy() {
		if pl.handle.ProfileName() == pod.Spec.SchedulerName {
			return pl
		}
	}
	return nil
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

// Errors of fencePod.
var (
	// errFenced is the cause where a later scheduler process has fenced the pod.
	errFenced = errors.New("another scheduler process has taken over the pods of this one, which binds no shares of devices until it is restarted")
	// errTooLarge is a pod that is too large for any write of the status, and for a Binding.
	errTooLarge = errors.New("the pod is as large as the API server can store, so neither its status nor a Binding can be written")
	// errBound is a pod that is bound by now, until that is seen.
	errBound = errors.New("another scheduler process has just bound it")
	// errNotTried is a pod whose turn has not come.
	errNotTried = errors.New("its turn has not come")
)

// fencePod changes the resource version of a pending pod, which is at least as new as any
// that a former process can have known, and returns the pod as it is then, or nil if it is
// gone or being deleted. Bindings with an older one are refused from then on. The error is
// errBound if the pod has a node by now.
//
// The write is for one version of the pod, so that the token of a later process is not
// overwritten unread. Where others change the pod so often that no such write is in time, the last
// one is for any version: the author of a pod must not be able to keep it from being fenced.
func (c *allocationCache) fencePod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (*corev1.Pod, error) {
	var err error
	for range fenceTries {
		if newer, known := c.isSuccessor(pod); newer && known && c.servedBy(pod) != nil {
			c.depose(pod)
			return nil, errFenced
		}
		var fenced *corev1.Pod
		fenced, err = c.writeFence(ctx, client, pod)
		switch {
		case err == nil:
			return fenced, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err):
			return nil, err
		}
		current, listErr := currentPod(ctx, client, pod)
		if listErr != nil {
			return nil, listErr
		}
		switch {
		case current == nil || current.DeletionTimestamp != nil:
			return nil, nil
		case current.Spec.NodeName != "":
			return nil, errBound
		}
		pod = current
	}
	anyVersion := pod.DeepCopy()
	anyVersion.ResourceVersion = ""
	fenced, err := c.patchStatus(ctx, client, anyVersion, c.usualFence(pod))
	if err == nil && fenced.Spec.NodeName != "" {
		return nil, errBound
	}
	return fenced, err
}

// writeFence writes the fence to one version of the pod, the smallest one if the pod is so
// large that the usual one does not fit.
func (c *allocationCache) writeFence(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (*corev1.Pod, error) {
	fenced, err := c.patchStatus(ctx, client, pod, c.usualFence(pod))
	if !isTooLarge(err) {
		return fenced, err
	}
	fenced, err = c.patchStatus(ctx, client, pod, c.smallestFence(pod))
	if isTooLarge(err) {
		return nil, fmt.Errorf("%w (%w)", errTooLarge, err)
	}
	return fenced, err
}

// usualFence changes the resource version of a pod and says which process did.
func (c *allocationCache) usualFence(pod *corev1.Pod) map[string]any {
	condition := map[string]any{
		"type": names.GPUFenceCondition, "status": corev1.ConditionTrue, "reason": fenceReason,
		"lastTransitionTime": c.changedTime(pod, names.GPUFenceCondition),
	}
	if c.servedBy(pod) != nil {
		condition["message"] = c.nextToken()
	}
	return map[string]any{"conditions": []any{condition}}
}

// smallestFence changes the resource version of a pod by a write that is refused for its
// size only where every Binding is. A Binding adds to the pod a node, the record of its
// devices and the condition PodScheduled=True, in the place of one with a reason and a
// message. This writes PodScheduled=False, which is one byte longer, in the same place, and
// adds neither node nor record. Both clear the nominated node. Of the managed fields a
// Binding keeps all; an API server to which a patch is too large drops them.
//
// So where this is refused for its size, the version of the pod that there is cannot be
// bound, and any other write changes the version. What does not hold then: that somebody
// raises the limit of etcd while the Binding is on its way, or that a webhook adds to
// pods/status what it does not add to a Binding.
func (c *allocationCache) smallestFence(pod *corev1.Pod) map[string]any {
	return map[string]any{
		"nominatedNodeName": nil,
		"conditions": []any{map[string]any{
			"type": corev1.PodScheduled, "status": corev1.ConditionFalse, "lastTransitionTime": c.changedTime(pod, corev1.PodScheduled),
			"reason": nil, "message": nil, "lastProbeTime": nil, "observedGeneration": nil,
		}},
	}
}

// changedTime is now, or what makes a difference to the condition: a write that changes
// nothing leaves the resource version as it is.
func (c *allocationCache) changedTime(pod *corev1.Pod, condition corev1.PodConditionType) metav1.Time {
	now := metav1.NewTime(c.clock.Now()).Rfc3339Copy()
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == condition && old.LastTransitionTime.Unix() == now.Unix() {
			return metav1.NewTime(now.Add(time.Second))
		}
	}
	return now
}

// patchStatus changes the status of one version of a pod.
func (c *allocationCache) patchStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, status map[string]any) (*corev1.Pod, error) {
	metadata := map[string]any{"uid": pod.UID}
	if pod.ResourceVersion != "" {
		metadata["resourceVersion"] = pod.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": status})
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	patched, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		return patched, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("changing the status of pod %s: %w", klog.KObj(pod), err)
}

// isTooLarge reports whether a write was refused because the object is larger than etcd, or
// the API server's connection to it, takes. The API server passes their words on as an
// internal error; compare isTooLargeError in k8s.io/apiserver/pkg/endpoints/handlers.
// What a webhook or a policy says is never the whole message.
func isTooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	const exhausted = "rpc error: code = ResourceExhausted desc = "
	return message == "etcdserver: request is too large" ||
		strings.HasPrefix(message, exhausted+"trying to send message larger than max") ||
		strings.HasPrefix(message, exhausted+"grpc: received message larger than max")
}

// currentPod asks the API server, and not one of its caches, for a pod: nil if that is gone.
// It lists one pod by name, because the scheduler may list pods and not get them.
func currentPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (*corev1.Pod, error) {
	list, err := client.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("listing pod %s: %w", klog.KObj(pod), err)
	}
	for i := range list.Items {
		if found := &list.Items[i]; found.Name == pod.Name && found.UID == pod.UID {
			return found, nil
		}
	}
	return nil, nil
}

// nextToken returns a token of this process, another one each time.
//
// A token is <epoch>/<process>/<number>. The epoch is the version that the API server's store
// had when the process began to fence, so of two processes that which began later
// has the higher one, whatever their clocks say. Where they are equal the names of the processes decide.
func (c *allocationCache) nextToken() string {
	return fmt.Sprintf("%s/%s/%d", c.epoch, c.identity, c.fenceWrites.Add(1))
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

// isSuccessor reports whether the pod's token is that of a process that began to fence after this
// one. known is false where the token does not say, which is then taken for yes.
//
// A token is written after its epoch was read. Where the pod's version is not above it, etcd
// was restored to an older state since: the process was before this one, whatever its epoch.
// Without an epoch of its own this process has fenced nothing: it simulates.
func (c *allocationCache) isSuccessor(pod *corev1.Pod) (newer, known bool) {
	token := fenceTokenOf(pod)
	if token == "" || c.epoch == "" {
		return false, true
	}
	epoch, rest, _ := strings.Cut(token, "/")
	process, _, _ := strings.Cut(rest, "/")
	if process == string(c.identity) {
		return false, true
	}
	if order, err := resourceversion.CompareResourceVersion(epoch, pod.ResourceVersion); err == nil && order >= 0 {
		return false, true
	}
	order, err := resourceversion.CompareResourceVersion(epoch, c.epoch)
	if err != nil {
		return true, false
	}
	return order > 0 || order == 0 && process > string(c.identity), true
}

// heedToken returns errFenced if another process has taken over from this one, and finds out from the
// token of a pending pod that this one serves. A process that has fenced all
// pods finds on them its own token, or none on those that came later, or one of a process
// before it on a pod that was kept back. Any other was written by a process that has begun after it,
// and may bind any pod from then on; so this one binds none.
func (c *allocationCache) heedToken(pod *corev1.Pod) error {
	if newer, _ := c.isSuccessor(pod); newer {
		c.depose(pod)
	}
	if c.deposed.Load() {
		return errFenced
	}
	return nil
}

// depose has this process give no more shares. pod is the one that shows why.
func (c *allocationCache) depose(pod *corev1.Pod) {
	if !c.deposed.CompareAndSwap(false, true) {
		return
	}
	deposedProcess.Set(1)
	klog.FromContext(c.ctx).Error(errFenced, "No longer allocating shares of devices", "pod", klog.KObj(pod), "token", fenceTokenOf(pod), "process", c.identity)
	c.warn(pod, nil, reasonReplaced, actionBinding, "Two scheduler processes serve this pod: "+errFenced.Error()+". Enable leader election for both.")
}
