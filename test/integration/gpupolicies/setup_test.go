// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpupolicies attacks what manifests/overlays/gpu installs for shares of
// devices: every way in which a pod may try to see, change, free or forge a device
// that it was not given, or to pass a quota, against a real API server and the real
// scheduler with its shipped profile.
package gpupolicies

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

const (
	// visibleDevices is the variable that NVIDIA's container runtime reads.
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	// pluginResource is what NVIDIA's device plugin advertises.
	pluginResource = "nvidia.com/gpu"
)

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// gpuNode is a shared node with one device, labeled and tainted as
// manifests/README.md says.
func gpuNode(name string) corev1.Node {
	n := framework.GPUNode(name, "NVIDIA-A100", 1, 40960)
	n.Spec.Taints = []corev1.Taint{{Key: names.GPUSharingLabel, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

// newPod returns a pod for Berth's profile that asks for nothing and tolerates nothing.
func newPod(namespace, name string) *corev1.Pod {
	return framework.Pod(namespace, name, names.Scheduler)
}

// sharePod returns a pod whose container main asks for thousandths of a device.
func sharePod(namespace, name, milli string) *corev1.Pod {
	pod := framework.SharePod(name, milli)
	pod.Namespace, pod.Spec.Tolerations = namespace, []corev1.Toleration{toleration}
	return pod
}

// start starts a control plane with the namespace team, the overlay, and a
// RuntimeClass as NVIDIA's operator makes it. What before does comes before the
// policies; it may be nil.
func start(t *testing.T, before func(*framework.Cluster)) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{gpuNode("gpu")}, APIServerArgs: []string{"--feature-gates=" + comparisons}})
	c.CreateNamespace(t, "team", nil)
	if before != nil {
		before(c)
	}
	install.Apply(t, c, "overlays/gpu")
	_, err := c.Client.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "nvidia"},
		Handler:    "nvidia",
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{names.GPUSharingLabel: "true"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForPolicies(t, c)
	return c
}

// waitForPolicies waits until the API server has compiled the policies; that on
// quotas is waited for where there is a quota.
func waitForPolicies(t *testing.T, c *framework.Cluster) {
	t.Helper()
	named := sharePod("team", "probe", "500")
	named.Spec.NodeName = "gpu"
	recorded := sharePod("team", "probe", "500")
	recorded.Annotations = map[string]string{names.GPUAssignedAnnotation: "x"}
	framework.WaitForCondition(t, framework.WaitTimeout, "the mutation", func() (bool, error) {
		// Until it is there, the policy on devices may refuse the pod.
		pod, err := c.Client.CoreV1().Pods("team").Create(t.Context(), sharePod("team", "probe", "500"), dryRun)
		return err == nil && len(pod.Spec.Containers[0].Env) == 1, err
	})
	for policy, pod := range map[string]*corev1.Pod{"berth-gpu-devices": named, "berth-gpu-records": recorded} {
		framework.WaitForCondition(t, framework.WaitTimeout, "the policy "+policy, func() (bool, error) {
			_, err := c.Client.CoreV1().Pods("team").Create(t.Context(), pod, dryRun)
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), policy), err
		})
	}
}

// toleration is of the taint of shared nodes.
var toleration = corev1.Toleration{Key: names.GPUSharingLabel, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}

// limits returns limits of pairs of a resource and its amount.
func limits(pairs ...string) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return corev1.ResourceRequirements{Limits: list}
}

// own is the variable that lets a container read its own annotation.
func own(container string) corev1.EnvVar {
	return corev1.EnvVar{Name: visibleDevices, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		APIVersion: "v1",
		FieldPath:  "metadata.annotations['" + names.GPUDevicesAnnotationPrefix + container + "']",
	}}}
}

// value is the variable with a value.
func value(devices string) corev1.EnvVar {
	return corev1.EnvVar{Name: visibleDevices, Value: devices}
}

type edit = framework.Edit

var (
	all         = framework.Edits
	tolerates   = framework.Tolerates
	tolerateAll = framework.ToleratesAll
	nodeNamed   = framework.OnNode("gpu")
	scheduledBy = framework.ScheduledBy
	annotated   = framework.Annotated
)

func env(variables ...corev1.EnvVar) edit {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = variables }
}

func asks(pairs ...string) edit {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources = limits(pairs...) }
}
