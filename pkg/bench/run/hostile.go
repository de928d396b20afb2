// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

const (
	// triedTimeout is how long a scheduler may take to try the waiting pods before the
	// others arrive. One that takes longer is still busy with them then.
	triedTimeout = 30 * time.Second
	// hostilePoll is how often that is looked at.
	hostilePoll = 250 * time.Millisecond
)

// hostileTenant is the hostile owner of two namespaces, on a cluster that goes away with the
// benchmark. All its writes come from one goroutine, one at a time.
type hostileTenant struct {
	client      kubernetes.Interface
	plan        *workload.HostilePlan
	environment Environment
}

// settleIn creates what is there before the pods of others arrive.
func (n *hostileTenant) settleIn(ctx context.Context, spec *schedulers.Spec) error {
	for i := range n.plan.Services {
		service := n.plan.Services[i].DeepCopy()
		if _, err := n.client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Service %s of the hostile namespace: %w", service.Name, err)
		}
	}
	creator := &creator{client: n.client}
	for _, pods := range [][]corev1.Pod{n.plan.Bound, n.plan.Waiting, n.plan.Gated} {
		for i := range pods {
			creator.pods = append(creator.pods, n.adopt(&pods[i], spec))
		}
	}
	return creator.run(ctx, func(time.Time) {})
}

// adopt returns a planned pod as it is created for a scheduler.
func (n *hostileTenant) adopt(planned *corev1.Pod, spec *schedulers.Spec) *corev1.Pod {
	pod := planned.DeepCopy()
	n.environment.Adopt(pod)
	pod.Namespace, pod.Spec.SchedulerName = planned.Namespace, spec.Name
	if _, waits := pod.Annotations[workload.RequirementAnnotation]; waits && !spec.Colocates {
		pod.Spec.Affinity = n.plan.Affinity
	}
	return pod
}

// awaitTried waits until the scheduler has tried each waiting pod, or until it has had
// the time for it. A scheduler that knows no requirements binds them.
func (n *hostileTenant) awaitTried(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, hostilePoll, triedTimeout, true, func(ctx context.Context) (bool, error) {
		tried := 0
		for _, namespace := range []string{workload.HostileNamespace, workload.AccompliceNamespace} {
			list, err := n.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for i := range list.Items {
				condition := refusal(&list.Items[i])
				if list.Items[i].Spec.NodeName != "" || condition != nil && condition.Reason != corev1.PodReasonSchedulingGated {
					tried++
				}
			}
		}
		return tried >= len(n.plan.Bound)+len(n.plan.Waiting), nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return nil
	}
	return err
}

// start begins to write. The function that it returns ends that, and tells how many
// writes a second were answered, and what went wrong.
func (n *hostileTenant) start(ctx context.Context, spec *schedulers.Spec) (stop func() (rate float64, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	writes, begin := 0, time.Now()
	go func() {
		// A write that takes longer than its time is not made up for: the rate is a bound.
		pace := time.NewTicker(time.Duration(float64(time.Second) / n.plan.WritesPerSecond))
		defer pace.Stop()
		for {
			select {
			case <-pace.C:
			case <-ctx.Done():
				done <- nil
				return
			}
			if err := n.write(ctx, spec, n.plan.Write(writes)); err != nil {
				if ctx.Err() != nil {
					err = nil
				}
				done <- err
				return
			}
			writes++
		}
	}()
	return func() (float64, error) {
		cancel()
		err := <-done
		return float64(writes) / time.Since(begin).Seconds(), err
	}
}

// write makes one write.
func (n *hostileTenant) write(ctx context.Context, spec *schedulers.Spec, write workload.HostileWrite) error {
	pods, waiting := n.client.CoreV1().Pods(workload.HostileNamespace), n.client.CoreV1().Pods(workload.AccompliceNamespace)
	var err error
	switch write.Kind {
	case workload.FlapConsent:
		_, err = n.client.CoreV1().Services(workload.HostileNamespace).Patch(ctx, n.plan.Services[write.Index].Name, types.MergePatchType,
			metadataPatch("annotations", write), metav1.PatchOptions{})
	case workload.FlipPeer:
		_, err = pods.Patch(ctx, n.plan.Bound[write.Index].Name, types.MergePatchType, metadataPatch("labels", write), metav1.PatchOptions{})
	case workload.RewriteTerms:
		pod := &n.plan.Waiting[write.Index]
		_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, metadataPatch("annotations", write), metav1.PatchOptions{})
	case workload.Ungate:
		_, err = waiting.Patch(ctx, n.plan.Gated[write.Index].Name, types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
	case workload.DeleteUngated:
		err = deleteNow(ctx, waiting, n.plan.Gated[write.Index].Name)
	case workload.Regate:
		_, err = waiting.Create(ctx, n.adopt(&n.plan.Gated[write.Index], spec), metav1.CreateOptions{})
	case workload.Forge:
		_, err = pods.Create(ctx, n.adopt(&n.plan.Forger, spec), metav1.CreateOptions{})
	case workload.Unforge:
		err = deleteNow(ctx, pods, n.plan.Forger.Name)
	default:
		err = fmt.Errorf("unknown write %d", write.Kind)
	}
	// A pod of its own that others have deleted, such as one that a node's fake kubelet
	// took for its predecessor, has its next turn.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing as the hostile namespace: %w", err)
	}
	return nil
}

// deleteNow deletes a pod without grace.
func deleteNow(ctx context.Context, pods typedcorev1.PodInterface, name string) error {
	return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

// metadataPatch is a merge patch that sets one label or annotation.
func metadataPatch(field string, write workload.HostileWrite) []byte {
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{field: map[string]string{write.Key: write.Value}}}) // strings can always be marshalled
	return patch
}
