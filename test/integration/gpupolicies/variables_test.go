// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// pretenders may create pods and have half of what makes a kubelet: the group or
// the name.
const pretenders = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pretenders, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: fake}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:node:fake"}
`

// cdiAnnotation is one by which a container runtime gives out devices.
const cdiAnnotation = "cdi.k8s.io/gpu"

// containers gives a pod as many, each of which asks for one of the resource; empty for none.
func containers(count int, resource string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = nil
		for i := range count {
			container := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "x"}
			if resource != "" {
				container.Resources = limits(resource, "1")
			}
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}
}

// testVariables creates pods whose authors set the variable themselves.
func testVariables(t *testing.T, c *framework.Cluster) {
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), "gpu", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubelet := framework.ClientFor(t, c.UserKubeconfig(t, "system:node:gpu", "system:nodes"))
	c.Apply(t, pretenders)
	asking := func(variables ...corev1.EnvVar) edit {
		return all(asks(names.GPUMilliResource, "500"), env(variables...))
	}
	tests := []struct {
		name      string
		client    kubernetes.Interface // nil: the administrator
		namespace string               // default: team
		arm       func(*corev1.Pod)
		// want is part of the refusal; empty: let in.
		want []string
	}{
		{name: "its own annotation", arm: asking(own("main"))},
		{
			name: "all devices",
			arm:  asking(value("all")),
			want: []string{"berth-gpu-devices", "container(s) main", "metadata.annotations['gpu.berth.dev/<container>']", "remove it"},
		},
		{name: "one device, by its number", arm: asking(value("0")), want: []string{"container(s) main"}},
		{name: "another container's annotation", arm: asking(own("other")), want: []string{"container(s) main"}},
		{
			name: "another field",
			arm: asking(corev1.EnvVar{Name: visibleDevices, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: "metadata.annotations['example.com/devices']",
			}}}),
			want: []string{"container(s) main"},
		},
		{
			name: "a ConfigMap's key",
			arm: asking(corev1.EnvVar{Name: visibleDevices, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Key: "x",
			}}}),
			want: []string{"container(s) main"},
		},
		{
			// Of two, the kubelet takes the last.
			name: "its own annotation, and then all",
			arm:  asking(own("main"), value("all")),
			want: []string{"container(s) main"},
		},
		{
			name: "all devices for a sidecar without a share",
			arm: func(pod *corev1.Pod) {
				asking()(pod)
				pod.Spec.InitContainers = []corev1.Container{
					{Name: "sidecar", Image: "x", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Env: []corev1.EnvVar{value("all")}},
				}
			},
			want: []string{"container(s) sidecar", `must be "void"`, "berth.dev/gpu-milli"},
		},
		{
			name: "the main container's devices for a container without a share",
			arm: func(pod *corev1.Pod) {
				asking()(pod)
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "second", Image: "x", Env: []corev1.EnvVar{own("main")}})
			},
			want: []string{"container(s) second", `must be "void"`},
		},
		{
			name: "void, and then all, without a share",
			arm:  all(tolerateAll, env(value("void"), value("all"))),
			want: []string{"container(s) main", "once"},
		},
		{
			name: "all devices without a share, where it may reach a shared node",
			arm:  all(tolerateAll, env(value("all"))),
			want: []string{"container(s) main", "exempt namespace (kube-system, berth-system, gpu-operator)"},
		},
		{name: "all devices without a share in an exempt namespace", namespace: metav1.NamespaceSystem, arm: all(tolerateAll, env(value("all")))},
		{
			name:      "all devices with a share in an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm:       asking(value("all")),
			want:      []string{"container(s) main"},
		},
		{name: "all devices without a share, and the taint of shared nodes in the way", arm: env(value("all"))},
		{
			name: "all devices, and one of the device plugin's, which has no shared nodes",
			arm:  all(tolerateAll, env(value("all")), asks(pluginResource, "1")),
		},
		{name: "a share, and the node named", arm: all(asking(), nodeNamed), want: []string{"spec.nodeName", "kubernetes.io/hostname"}},
		{
			name: "all devices, a resource of nobody's, and the node named",
			arm:  all(nodeNamed, env(value("all")), asks("nvidia.com/anything", "1")),
			want: []string{"container(s) main", `must be "void"`},
		},
		{
			name: "all devices, a resource of nobody's, and the taint of shared nodes tolerated",
			arm:  all(tolerateAll, env(value("all")), asks("nvidia.com/anything", "1")),
			want: []string{"container(s) main", `must be "void"`},
		},
		{
			// The kubelet of a shared node leaves the resource out.
			name: "all devices, one of the device plugin's, and the node named",
			arm:  all(nodeNamed, env(value("all")), asks(pluginResource, "1")),
			want: []string{"spec.nodeName", "nvidia.com/gpu", "kubernetes.io/hostname"},
		},
		{
			name: "no variable, one of the device plugin's in an init container, and the node named",
			arm: func(pod *corev1.Pod) {
				pod.Spec.NodeName = "gpu"
				pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "x", Resources: limits("nvidia.com/mig-1g.5gb", "1")}}
			},
			want: []string{"spec.nodeName", "nvidia.com/mig-", "kubernetes.io/hostname"},
		},
		{
			name:      "one of the device plugin's, and the node named, in an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm:       all(nodeNamed, env(value("all")), asks(pluginResource, "1")),
		},
		{name: "all devices, and a MIG device", arm: all(tolerateAll, env(value("all")), asks("nvidia.com/mig-1g.5gb", "1"))},
		{
			name: "all devices, one of the device plugin's, and a scheduler that may not count it",
			arm:  all(scheduledBy(names.RandomScheduler), tolerates(toleration), env(value("all")), asks(pluginResource, "1")),
			want: []string{"spec.tolerations", `"random-scheduler"`, "berth.dev/gpu-sharing", "[berth-scheduler, default-scheduler]"},
		},
		{
			name: "a MIG device in an init container, and a scheduler that may not count it",
			arm: func(pod *corev1.Pod) {
				pod.Spec.SchedulerName = "of-my-own"
				tolerateAll(pod)
				pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "x", Resources: limits("nvidia.com/mig-1g.5gb", "1")}}
			},
			want: []string{"spec.tolerations", `"of-my-own"`},
		},
		{
			name: "one of the device plugin's, and a scheduler that may not count it, and the taint in the way",
			arm:  all(scheduledBy(names.RandomScheduler), asks(pluginResource, "1")),
		},
		{
			name: "one of the device plugin's, and the cluster's scheduler, which counts it",
			arm:  all(scheduledBy(corev1.DefaultSchedulerName), tolerateAll, asks(pluginResource, "1")),
		},
		{
			name:      "one of the device plugin's, and a scheduler that may not count it, in an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm:       all(scheduledBy(names.RandomScheduler), tolerateAll, asks(pluginResource, "1")),
		},
		{name: "as many containers with a share as the scheduler takes", arm: containers(device.MaxContainers, milli)},
		{
			name: "one more",
			arm:  containers(device.MaxContainers+1, milli),
			want: []string{"spec.containers", "17 of them ask", "at most 16 that ask", "split the pod"},
		},
		{
			// That was an error of the policy's own, which named an expression.
			name: "a thousand containers with a share",
			arm:  containers(1000, milli),
			want: []string{"spec.containers: the pod has 1000 containers", "split the pod"},
		},
		{
			name: "two thousand containers that may run where devices are shared",
			arm:  all(containers(2000, ""), tolerateAll),
			want: []string{"spec.containers: the pod has 2000 containers", "at most 100"},
		},
		{name: "two thousand containers, and nothing that leads to a shared node", arm: containers(2000, "")},
		{
			name: "devices of the Container Device Interface, and a share",
			arm:  all(asking(), annotated(cdiAnnotation, "nvidia.com/gpu=all")),
			want: []string{"metadata.annotations [cdi.k8s.io/gpu]", "exempt namespace"},
		},
		{
			name: "devices of the Container Device Interface in the spelling of NVIDIA's runtime, where it may reach a shared node",
			arm:  all(tolerateAll, annotated("nvidia."+cdiAnnotation, "nvidia.com/gpu=all")),
			want: []string{"metadata.annotations [nvidia.cdi.k8s.io/gpu]"},
		},
		{
			name: "devices of the Container Device Interface, and the node named",
			arm:  all(nodeNamed, annotated(cdiAnnotation, "nvidia.com/gpu=all")),
			want: []string{"metadata.annotations [cdi.k8s.io/gpu]"},
		},
		{
			name: "devices of the Container Device Interface, and the taint of shared nodes in the way",
			arm:  annotated(cdiAnnotation, "example.com/fpga=0"),
		},
		{
			name:      "devices of the Container Device Interface in an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm:       all(tolerateAll, annotated(cdiAnnotation, "nvidia.com/gpu=all")),
		},
		{
			name: "all devices, and zero of a share",
			arm:  all(tolerateAll, env(value("all")), asks(names.GPUMilliResource, "0", names.GPUMemoryResource, "0")),
			want: []string{"container(s) main", `must be "void"`},
		},
		{name: "zero of a share, and the cluster's scheduler", arm: all(scheduledBy(""), tolerateAll, asks(names.GPUMilliResource, "0"))},
		{name: "zero of a share, and the node named", arm: all(nodeNamed, asks(names.GPUMemoryResource, "0"))},
		{
			name: "a share, and the cluster's scheduler",
			arm:  all(asking(), scheduledBy("")),
			want: []string{"spec.schedulerName", "[berth-scheduler]", `not "default-scheduler"`},
		},
		{
			name:      "memory of a device, and the cluster's scheduler, in an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm: func(pod *corev1.Pod) {
				pod.Spec.SchedulerName = corev1.DefaultSchedulerName
				pod.Spec.InitContainers = []corev1.Container{{
					Name: "init", Image: "x", Resources: limits(names.GPUMilliResource, "0", names.GPUMemoryResource, "1Gi"),
				}}
			},
			want: []string{"spec.schedulerName", `not "default-scheduler"`},
		},
		{
			name: "two containers of one name, which the API server refuses in its own words",
			arm: func(pod *corev1.Pod) {
				asking()(pod)
				pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
			},
			want: []string{"Duplicate value"},
		},
		{
			name:   "a kubelet's mirror pod",
			client: kubelet,
			arm: func(pod *corev1.Pod) {
				asking(value("all"))(pod)
				pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				pod.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true),
				}}
				pod.Spec.NodeName = node.Name
			},
		},
		{
			name:   "a pod of somebody else's in the group of kubelets",
			client: framework.ClientFor(t, c.UserKubeconfig(t, "fake", "system:nodes")),
			arm: func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Env = []corev1.EnvVar{value("all")}
				pod.Spec.NodeName = node.Name
			},
			want: []string{"container(s) main", `must be "void"`},
		},
		{
			name:   "a pod of somebody's with a kubelet's name",
			client: framework.ClientFor(t, c.UserKubeconfig(t, "system:node:fake")),
			arm: func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Env = []corev1.EnvVar{value("all")}
				pod.Spec.NodeName = node.Name
			},
			want: []string{"container(s) main", `must be "void"`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.namespace == "" {
				tt.namespace = "team"
			}
			if tt.client == nil {
				tt.client = c.Client
			}
			pod := newPod(tt.namespace, "p")
			tt.arm(pod)
			_, err := tt.client.CoreV1().Pods(tt.namespace).Create(t.Context(), pod, dryRun)
			framework.CheckDenied(t, err, tt.want)
		})
	}
}

// testTolerationsAddedLater gives waiting pods a way to shared nodes when their
// environment cannot be changed any more.
func testTolerationsAddedLater(t *testing.T, c *framework.Cluster) {
	all := newPod("team", "later-all")
	all.Spec.Containers[0].Env = []corev1.EnvVar{value("all")}
	void := newPod("team", "later-void")
	void.Spec.Containers[0].Env = []corev1.EnvVar{value("void")}
	unset := newPod("team", "later-unset")
	share := sharePod("team", "later-share", "500")
	share.Spec.Tolerations = nil
	for _, pod := range []*corev1.Pod{all, void, unset, share} {
		c.CreatePod(t, pod)
	}
	debugged := newPod("team", "later-debugged")
	debugged.Spec.Containers[0].Env = []corev1.EnvVar{value("void")}
	c.CreatePod(t, debugged)
	if _, err := debug(t, c, "later-debugged", "debugger", value("all")); err != nil {
		t.Fatal(err)
	}

	early, plugin := newPod("team", "later-cdi"), newPod("team", "later-plugin")
	early.Annotations = map[string]string{cdiAnnotation: "nvidia.com/gpu=all"}
	early.Spec.Containers[0].Env = []corev1.EnvVar{value("void")}
	plugin.Spec.SchedulerName = names.RandomScheduler
	plugin.Spec.Containers[0].Resources = limits(pluginResource, "1")
	placed := newPod("team", "later-placed")
	placed.Spec.NodeName = "gpu"
	for _, pod := range []*corev1.Pod{early, plugin, placed, newPod("team", "later-annotated")} {
		c.CreatePod(t, pod)
	}

	const (
		annotate = `[{"op": "add", "path": "/metadata/annotations", "value": {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}}]`
		tolerate = `[{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "berth.dev/gpu-sharing", "operator": "Exists"}}]`
		label    = `[{"op": "add", "path": "/metadata/labels", "value": {"edited": "yes"}}]`
	)
	tests := []struct {
		name, pod, patch string
		want             []string
	}{
		{"devices of the Container Device Interface", "later-cdi", tolerate, []string{"metadata.annotations [cdi.k8s.io/gpu]"}},
		{"devices of the Container Device Interface, added to a share", "later-share", annotate, []string{"metadata.annotations [cdi.k8s.io/gpu]"}},
		{"devices of the Container Device Interface, where the pod has a node", "later-placed", annotate, []string{"metadata.annotations [cdi.k8s.io/gpu]"}},
		{"devices of the Container Device Interface, with the taint in the way", "later-annotated", annotate, nil},
		{"another edit of one that has them", "later-cdi", label, nil},
		{"a device of the device plugin, and a scheduler that may not count it", "later-plugin", tolerate, []string{"spec.tolerations", `"random-scheduler"`}},
		{"all devices", "later-all", tolerate, []string{"container(s) main", `must be "void"`}},
		{"what its image says", "later-unset", tolerate, []string{"container(s) main", `must be "void"`}},
		{"all devices in a debug container", "later-debugged", tolerate, []string{"container(s) debugger", `must be "void"`}},
		{"another edit of an early pod", "early", label, nil},
		{"another edit", "later-all", label, nil},
		{"no device", "later-void", tolerate, nil},
		{"a share", "later-share", tolerate, nil},
		{"another edit of one that tolerates the taint", "later-share", label, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.patch == annotate {
				// The status takes annotations as well.
				_, err := c.Client.CoreV1().Pods("team").Patch(t.Context(), tt.pod, types.JSONPatchType, []byte(tt.patch),
					metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
				framework.CheckDenied(t, err, tt.want)
			}
			_, err := c.Client.CoreV1().Pods("team").Patch(t.Context(), tt.pod, types.JSONPatchType, []byte(tt.patch), metav1.PatchOptions{})
			framework.CheckDenied(t, err, tt.want)
		})
	}
}
