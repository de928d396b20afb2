// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const mainAnnotation = names.GPUDevicesAnnotationPrefix + "main"

// testRecords writes annotations as somebody who may do everything: what is
// refused here is refused to everybody.
func testRecords(t *testing.T, c *framework.Cluster) {
	t.Run("creation", func(t *testing.T) {
		tests := []struct {
			name        string
			namespace   string
			annotations map[string]string
			want        []string
		}{
			{
				name:        "what Berth was told to read",
				namespace:   "team",
				annotations: map[string]string{names.GPUModelAnnotation: "NVIDIA-*", "gpu.berth.device/x": "", "berth.dev/gpu-assigned-not": ""},
			},
			{
				name:        "a record",
				namespace:   "team",
				annotations: map[string]string{names.GPUAssignedAnnotation: "main=0:1m:1Mi"},
				want:        []string{"berth-gpu-records", "[berth.dev/gpu-assigned]", "remove them", "backup"},
			},
			{
				name:        "devices",
				namespace:   "team",
				annotations: map[string]string{mainAnnotation: "0"},
				want:        []string{"[gpu.berth.dev/main]"},
			},
			{
				name:        "devices, in an exempt namespace",
				namespace:   metav1.NamespaceSystem,
				annotations: map[string]string{mainAnnotation: "0"},
				want:        []string{"[gpu.berth.dev/main]"},
			},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				pod := sharePod(tt.namespace, "p", "500")
				pod.Annotations = tt.annotations
				_, err := c.Client.CoreV1().Pods(tt.namespace).Create(t.Context(), pod, dryRun)
				framework.CheckDenied(t, err, tt.want)
			})
		}
	})

	t.Run("update", func(t *testing.T) {
		bound := c.CreatePod(t, sharePod("team", "bound", "500"))
		bind(t, c.Client, bound, map[string]string{mainAnnotation: "0", names.GPUAssignedAnnotation: "main=0:500m:20480Mi"})
		c.CreatePod(t, sharePod("team", "waiting", "500"))
		for _, tt := range recordPatches {
			patch := func(t *testing.T, subresource string) (*corev1.Pod, error) {
				return c.Client.CoreV1().Pods("team").Patch(t.Context(), tt.pod, types.MergePatchType, []byte(tt.patch),
					metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources(subresource)...)
			}
			for _, subresource := range []string{"", "status"} {
				t.Run(tt.name+" by pods/"+subresource, func(t *testing.T) {
					_, err := patch(t, subresource)
					framework.CheckDenied(t, err, tt.want)
				})
			}
			// These leave annotations out of account, in this version of Kubernetes. If
			// another one does not, the policy is there too.
			for _, subresource := range []string{"ephemeralcontainers", "resize"} {
				t.Run(tt.name+" by pods/"+subresource, func(t *testing.T) {
					before, err := c.Client.CoreV1().Pods("team").Get(t.Context(), tt.pod, metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					after, err := patch(t, subresource)
					if err != nil {
						return // refused, by whomever
					}
					if diff := cmp.Diff(recordOf(before), recordOf(after)); diff != "" {
						t.Errorf("Unexpected record (-want,+got):\n%s", diff)
					}
				})
			}
		}
	})

	t.Run("status", func(t *testing.T) {
		ended := []byte(`{"status": {"phase": "Succeeded"}}`)
		kubelet := framework.ClientFor(t, c.UserKubeconfig(t, "system:node:gpu", "system:nodes"))
		patch := func(client kubernetes.Interface, pod string, patch []byte) error {
			_, err := client.CoreV1().Pods("team").Patch(t.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		}
		condition := []byte(`{"status": {"conditions": [{"type": "example.com/seen", "status": "True"}]}}`)
		if err := patch(kubelet, "bound", condition); err != nil {
			t.Errorf("a kubelet's status: %v", err)
		}
		if err := patch(kubelet, "bound", ended); err != nil {
			t.Errorf("a kubelet's end of a pod: %v", err)
		}
		if err := patch(c.Client, "bound", condition); err != nil {
			t.Errorf("the status of a pod that has ended: %v", err)
		}
		// Its devices are another pod's by now, whoever says that it runs again.
		for who, client := range map[string]kubernetes.Interface{"an administrator": c.Client, "a kubelet": kubelet} {
			for _, phase := range []string{"Running", "Pending", "Unknown"} {
				t.Run(who+" calls an ended pod "+phase, func(t *testing.T) {
					framework.CheckDenied(t, patch(client, "bound", []byte(`{"status": {"phase": "`+phase+`"}}`)), []string{"berth-gpu-records", "status.phase: must stay Succeeded"})
				})
			}
		}
		framework.CheckDenied(t, patch(kubelet, "bound", []byte(`{"status": {"phase": "Failed"}}`)), nil)
		// Who may bind every pod is a scheduler.
		c.Apply(t, user)
		author := framework.ClientFor(t, c.ServiceAccountKubeconfig(t, "team", "user"))
		fence := func(message string) []byte {
			return []byte(`{"status": {"conditions": [{"type": "` + names.GPUFenceCondition + `", "status": "True", "message": "` + message + `"}]}}`)
		}
		forged := []string{"berth-gpu-records", "status.conditions[berth.dev/gpu-fence]", "must not be added, changed or removed"}
		framework.CheckDenied(t, patch(author, "waiting", fence("9/forged/1")), forged)
		framework.CheckDenied(t, patch(c.Client, "waiting", fence("1/process/1")), nil)
		framework.CheckDenied(t, patch(author, "waiting", fence("9/forged/1")), forged)
		framework.CheckDenied(t, patch(author, "waiting", []byte(`{"status": {"conditions": [{"$patch": "delete", "type": "`+names.GPUFenceCondition+`"}]}}`)), forged)
		framework.CheckDenied(t, patch(author, "waiting", condition), nil)
		// Without a record it held nothing.
		for _, phase := range []string{"Succeeded", "Running"} {
			framework.CheckDenied(t, patch(c.Client, "waiting", []byte(`{"status": {"phase": "`+phase+`"}}`)), nil)
		}
	})
}

// recordPatches are merge patches of the pods bound, which has a record, and
// waiting, which has none.
var recordPatches = []struct {
	name, pod, patch string
	want             []string
}{
	{
		name:  "another record",
		pod:   "bound",
		patch: `{"metadata": {"annotations": {"berth.dev/gpu-assigned": "main=0:1m:1Mi"}}}`,
		want:  []string{"berth-gpu-records", "[berth.dev/gpu-assigned]", "leave them as they are"},
	},
	{
		name:  "no record",
		pod:   "bound",
		patch: `{"metadata": {"annotations": {"berth.dev/gpu-assigned": null}}}`,
		want:  []string{"[berth.dev/gpu-assigned]"},
	},
	{
		name:  "other devices",
		pod:   "bound",
		patch: `{"metadata": {"annotations": {"gpu.berth.dev/main": "1"}}}`,
		want:  []string{"[gpu.berth.dev/main]"},
	},
	{
		name:  "more devices",
		pod:   "bound",
		patch: `{"metadata": {"annotations": {"gpu.berth.dev/other": "1"}}}`,
		want:  []string{"[gpu.berth.dev/other]"},
	},
	{
		name:  "no annotation at all",
		pod:   "bound",
		patch: `{"metadata": {"annotations": null}}`,
		want:  []string{"berth.dev/gpu-assigned", "gpu.berth.dev/main"},
	},
	{
		name:  "devices before there is a node",
		pod:   "waiting",
		patch: `{"metadata": {"annotations": {"gpu.berth.dev/main": "0"}}}`,
		want:  []string{"[gpu.berth.dev/main]"},
	},
	{
		name:  "an annotation of somebody else",
		pod:   "bound",
		patch: `{"metadata": {"annotations": {"example.com/seen": "yes"}}}`,
	},
}

// subresources returns the argument of Patch.
func subresources(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// bind puts the pod on the node, as a scheduler does.
func bind(t *testing.T, client kubernetes.Interface, pod *corev1.Pod, annotations map[string]string) {
	t.Helper()
	if err := client.CoreV1().Pods(pod.Namespace).Bind(t.Context(), binding(pod, annotations), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func binding(pod *corev1.Pod, annotations map[string]string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "gpu"},
	}
}
