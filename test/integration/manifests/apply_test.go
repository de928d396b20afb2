// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestManifests has one control plane for all that needs no scheduler to run. Each subtest
// takes away what it has installed.
func TestManifests(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 1})
	t.Run("apply", func(t *testing.T) { manifestsApply(t, c) })
	t.Run("other pods", func(t *testing.T) { namespaceRefusesOtherPods(t, c) })
	t.Run("from one overlay to another", func(t *testing.T) { fromOneOverlayToAnother(t, c) })
	t.Run("leaving without the random scheduler", func(t *testing.T) { leavingWithoutTheRandomScheduler(t, c) })
}

// manifestsApply applies each kustomization to a cluster that has none of it,
// and takes it away again.
func manifestsApply(t *testing.T, c *framework.Cluster) {
	t.Helper()
	for _, dir := range kustomizations(t) {
		t.Run(dir, func(t *testing.T) {
			path := install.Path("manifests", dir)
			// Of what is not there yet, the server can only judge the namespaced part
			// once the namespace is.
			install.Apply(t, c, "namespace")
			c.Kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-k", path)
			install.Apply(t, c, dir)

			for _, r := range install.Build(t, path).Resources() {
				if r.GetKind() == "Deployment" {
					waitForPods(t, c, r.GetName())
				}
			}

			c.Kubectl(t, "delete", "-k", path)
			// The namespace is part of each that has something to run.
			if dir == "kubeadm" {
				c.Kubectl(t, "delete", "-k", install.Path("manifests/namespace"))
			}
			_, err := c.Client.CoreV1().Namespaces().Get(t.Context(), names.Namespace, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("after kubectl delete -k, the namespace is still there: %v", err)
			}
		})
	}
}

// waitForPods waits until the controllers have created every pod of the
// Deployment: admission, pod security among it, let them through.
func waitForPods(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	var deployment *appsv1.Deployment
	framework.WaitForCondition(t, framework.WaitTimeout, "the pods of Deployment "+name, func() (bool, error) {
		var err error
		deployment, err = c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range deployment.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
				t.Fatalf("the pods of Deployment %s are refused: %s", name, condition.Message)
			}
		}
		return deployment.Status.Replicas == *deployment.Spec.Replicas, nil
	})
}

// namespaceRefusesOtherPods: that the pods above were created says something
// only if the namespace does refuse a pod that is not restricted.
func namespaceRefusesOtherPods(t *testing.T, c *framework.Cluster) {
	t.Helper()
	install.Apply(t, c, "base")
	defer c.Kubectl(t, "delete", "-k", install.Path("manifests/base"))
	deployment, err := c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name   string
		loosen func(*corev1.PodSpec)
		want   string
	}{
		{
			name:   "root",
			loosen: func(spec *corev1.PodSpec) { spec.SecurityContext.RunAsNonRoot = nil },
			want:   "runAsNonRoot",
		},
		{
			name:   "capabilities",
			loosen: func(spec *corev1.PodSpec) { spec.Containers[0].SecurityContext.Capabilities = nil },
			want:   "capabilities",
		},
		{
			name:   "privilege escalation",
			loosen: func(spec *corev1.PodSpec) { spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
			want:   "allowPrivilegeEscalation",
		},
		{
			name:   "seccomp",
			loosen: func(spec *corev1.PodSpec) { spec.SecurityContext.SeccompProfile = nil },
			want:   "seccompProfile",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "loose-"}, Spec: *deployment.Spec.Template.Spec.DeepCopy()}
			tt.loosen(&pod.Spec)
			_, err := c.Client.CoreV1().Pods(names.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want the pod refused because of %s, got %v", tt.want, err)
			}
		})
	}
}

// TestDeployment holds the pod to what the README promises beyond pod security.
func TestDeployment(t *testing.T) {
	for _, dir := range []string{"base", "overlays/ha", "overlays/tenancy", "overlays/ha-tenancy", "overlays/gpu"} {
		t.Run(dir, func(t *testing.T) {
			spec := install.Find[appsv1.Deployment](t, install.Build(t, install.Path("manifests", dir)), "Deployment", names.Scheduler).Spec.Template.Spec
			container := spec.Containers[0]
			if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
				t.Error("the root file system is writable")
			}
			if spec.HostNetwork {
				t.Error("the pod is on the host's network, where port 10259 is the stock scheduler's")
			}
			for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if request := container.Resources.Requests[resource]; request.IsZero() {
					t.Errorf("%s: no request", resource)
				}
			}
			for name, probe := range map[string]*corev1.Probe{
				"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe,
			} {
				if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
					t.Errorf("the %s probe does not ask by HTTPS", name)
				}
			}
		})
	}
}
