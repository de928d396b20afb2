// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"context"
	_ "embed"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// user is a ServiceAccount that may do everything with pods of its namespace but
// bind them.
//
//go:embed testdata/user.yaml
var user string

// TestUserCannotTakeDevices: a user whose pod holds 600 of the only device's 1000
// thousandths tries to make another 600 of them, with and without the policies.
func TestUserCannotTakeDevices(t *testing.T) {
	c := start(t, nil)
	scheduler := install.Start(t, c)
	scheduler.WaitReady(t)
	c.Apply(t, user)
	client := framework.ClientFor(t, c.ServiceAccountKubeconfig(t, "team", "user"))
	pods := client.CoreV1().Pods("team")

	if _, err := pods.Create(t.Context(), sharePod("team", "holder", "600"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Running takes a status that keeps the annotations.
	holder := c.WaitForPodRunning(t, "team", "holder")
	given := map[string]string{mainAnnotation: "0", names.GPUAssignedAnnotation: "main=0:600m:24576Mi"}
	if diff := cmp.Diff(given, recordOf(holder)); diff != "" {
		t.Fatalf("Unexpected record (-want,+got):\n%s", diff)
	}
	if _, err := pods.Create(t.Context(), sharePod("team", "waiting", "600"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForRefusal(t, c, "waiting")

	t.Run("with the policies", func(t *testing.T) {
		for _, tt := range attacks {
			t.Run(tt.name, func(t *testing.T) {
				err := tt.attack(t.Context(), client, holder.DeepCopy())
				if tt.want != "" {
					framework.CheckDenied(t, err, []string{tt.want})
				}
				if diff := cmp.Diff(given, recordOf(get(t, c, "holder"))); diff != "" {
					t.Errorf("Unexpected record (-want,+got):\n%s", diff)
				}
			})
		}
		// A pod of its own for the attempt, which the scheduler cannot have judged
		// before.
		if _, err := pods.Create(t.Context(), sharePod("team", "after", "600"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForRefusal(t, c, "after")
	})

	t.Run("without the policies", func(t *testing.T) {
		c.Kubectl(t, "delete", "validatingadmissionpolicybinding", "berth-gpu-records")
		patch := func(text string) error {
			_, err := pods.Patch(t.Context(), "holder", types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status")
			return err
		}
		framework.WaitForCondition(t, framework.WaitTimeout, "the policy to be off", func() (bool, error) {
			err := patch(`{"metadata": {"annotations": {"berth.dev/gpu-assigned": "main=0:1m:1Mi"}}}`)
			return err == nil, err
		})
		c.WaitForEvent(t, "team", "holder", "GPURecordChanged", names.GPUAssignedAnnotation)
		if _, err := pods.Create(t.Context(), sharePod("team", "edited", "600"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForRefusal(t, c, "edited")

		if err := patch(`{"metadata": {"annotations": {"berth.dev/gpu-assigned": null, "gpu.berth.dev/main": null}}}`); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Create(t.Context(), sharePod("team", "removed", "600"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForRefusal(t, c, "removed")
		// What the record left free is given away as ever.
		if _, err := pods.Create(t.Context(), sharePod("team", "rest", "400"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := c.WaitForPodScheduled(t, "team", "rest").Annotations[mainAnnotation]; got != "0" {
			t.Errorf("the rest of the device is given as %q, want device 0", got)
		}
	})

	t.Run("a kubelet ends the pod", func(t *testing.T) {
		kubelet := framework.ClientFor(t, c.UserKubeconfig(t, "system:node:gpu", "system:nodes"))
		_, err := kubelet.CoreV1().Pods("team").Patch(t.Context(), "holder", types.StrategicMergePatchType,
			[]byte(`{"status": {"phase": "Succeeded"}}`), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
		framework.WaitForCondition(t, framework.WaitTimeout, "one of the waiting pods to get the device", func() (bool, error) {
			list, err := c.Client.CoreV1().Pods("team").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for i := range list.Items {
				switch list.Items[i].Name {
				case "waiting", "after", "edited", "removed":
					if list.Items[i].Spec.NodeName != "" {
						return true, nil
					}
				}
			}
			return false, nil
		})
	})
}

// attacks are what the user tries, and part of the refusal; where there is none,
// the API server ignores the attempt or refuses it for reasons of its own.
var attacks = []struct {
	name   string
	attack func(context.Context, kubernetes.Interface, *corev1.Pod) error
	want   string
}{
	{
		name:   "change the record in the pod",
		attack: patchHolder("", `{"metadata": {"annotations": {"berth.dev/gpu-assigned": "main=0:1m:1Mi"}}}`),
		want:   "berth-gpu-records",
	},
	{
		name:   "change the record in the status",
		attack: patchHolder("status", `{"metadata": {"annotations": {"berth.dev/gpu-assigned": "main=0:1m:1Mi"}}}`),
		want:   "berth-gpu-records",
	},
	{
		name:   "change the record with debug containers",
		attack: patchHolder("ephemeralcontainers", `{"metadata": {"annotations": {"berth.dev/gpu-assigned": "main=0:1m:1Mi"}}}`),
	},
	{
		name:   "change the record with a resize",
		attack: patchHolder("resize", `{"metadata": {"annotations": {"berth.dev/gpu-assigned": "main=0:1m:1Mi"}}}`),
	},
	{
		name:   "free the device by taking the record away",
		attack: patchHolder("status", `{"metadata": {"annotations": {"berth.dev/gpu-assigned": null}}}`),
		want:   "berth-gpu-records",
	},
	{
		name: "free the device by writing a pod without annotations",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			pod.Annotations, pod.ResourceVersion = nil, ""
			_, err := client.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
			return err
		},
		want: "berth-gpu-records",
	},
	{
		name:   "free the device by calling the pod ended",
		attack: patchHolder("status", `{"status": {"phase": "Succeeded"}}`),
		want:   "status.phase",
	},
	{
		name:   "free the device by calling the pod failed",
		attack: patchHolder("status", `{"status": {"phase": "Failed"}}`),
		want:   "delete the pod instead",
	},
	{
		name:   "free the device by asking for less",
		attack: patchHolder("resize", `{"spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"berth.dev/gpu-milli": "1"}, "requests": {"berth.dev/gpu-milli": "1"}}}]}}`),
		want:   "only cpu and memory resources are mutable",
	},
	{
		name:   "read another device",
		attack: patchHolder("", `{"metadata": {"annotations": {"gpu.berth.dev/main": "1"}}}`),
	},
	{
		name: "forge a record in a new pod",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			forged := sharePod(pod.Namespace, "forged", "600")
			forged.Annotations = recordOf(pod)
			_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, forged, metav1.CreateOptions{})
			return err
		},
		want: "berth-gpu-records",
	},
	{
		name: "forge a record in a pod that waits",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, "waiting", types.MergePatchType,
				[]byte(`{"metadata": {"annotations": {"gpu.berth.dev/main": "0"}}}`), metav1.PatchOptions{})
			return err
		},
		want: "berth-gpu-records",
	},
	{
		name: "go past the scheduler by naming the node",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			named := sharePod(pod.Namespace, "named", "600")
			named.Spec.NodeName = pod.Spec.NodeName
			_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, named, metav1.CreateOptions{})
			return err
		},
		want: "spec.nodeName",
	},
	{
		name: "bind the pod that waits",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			waiting := pod.DeepCopy()
			waiting.Name = "waiting"
			return client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding(waiting, recordOf(pod)), metav1.CreateOptions{})
		},
		want: `cannot create resource "pods/binding"`,
	},
	{
		name: "bind the pod that waits, in the old spelling",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			waiting := pod.DeepCopy()
			waiting.Name = "waiting"
			return client.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("bindings").
				Body(binding(waiting, recordOf(pod))).Do(ctx).Error()
		},
		want: `cannot create resource "bindings"`,
	},
	{
		name: "see all devices",
		attack: func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
			greedy := sharePod(pod.Namespace, "greedy", "1")
			greedy.Spec.Containers[0].Env = []corev1.EnvVar{value("all")}
			_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, greedy, metav1.CreateOptions{})
			return err
		},
		want: "berth-gpu-devices",
	},
}

// patchHolder is an attack by a merge patch.
func patchHolder(subresource, patch string) func(context.Context, kubernetes.Interface, *corev1.Pod) error {
	return func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources(subresource)...)
		return err
	}
}

// allocationOfShownPod returns the annotations that only a Binding may write.
func recordOf(pod *corev1.Pod) map[string]string {
	record := map[string]string{}
	for key, value := range pod.Annotations {
		if key == names.GPUAssignedAnnotation || strings.HasPrefix(key, names.GPUDevicesAnnotationPrefix) {
			record[key] = value
		}
	}
	return record
}

func get(t *testing.T, c *framework.Cluster, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.Client.CoreV1().Pods("team").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// waitForRefusal waits until the scheduler has found no device for the pod.
func waitForRefusal(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	c.WaitForPod(t, "team", name, "refused for want of a device", func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != "" {
			t.Fatalf("pod %s got %v on node %s", name, recordOf(pod), pod.Spec.NodeName)
		}
		condition := framework.PodScheduledCondition(pod)
		return condition != nil && condition.Reason == corev1.PodReasonUnschedulable && strings.Contains(condition.Message, "didn't have enough free device share")
	})
}
