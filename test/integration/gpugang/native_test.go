// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/oracle"
)

// nativeGates are Kubernetes 1.36's own gangs: alpha, off by default.
const nativeGates = "--feature-gates=GenericWorkload=true,GangScheduling=true"

// poolLabel keeps the gangs of one subtest from the nodes of the other.
const poolLabel = "pool"

func pooled(pool string, node corev1.Node) corev1.Node {
	node.Labels[poolLabel] = pool
	return node
}

// nativeGang creates a PodGroup of Kubernetes and returns its members, each with half a
// device of a pool.
func nativeGang(t *testing.T, c *framework.Cluster, pool, name string, size int) []*corev1.Pod {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: %s, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
`, name, size))
	var pods []*corev1.Pod
	for i := range size {
		pod := gpuPod(fmt.Sprintf("%s-%d", name, i), "500")
		pod.Spec.NodeSelector = map[string]string{poolLabel: pool}
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		pods = append(pods, pod)
	}
	return pods
}

// requireDevicesRight fails if the oracle finds a device allocated more than once.
func requireDevicesRight(t *testing.T, c *framework.Cluster, wantBound int) {
	t.Helper()
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := oracle.CheckDevices(nodes.Items, pods.Items)
	// A member of a gang that does not fit as a whole waits although one node has room.
	if wrong := r.Violations.Of(oracle.Overcommitted, oracle.Unrecorded, oracle.Torn, oracle.WrongRecord, oracle.WrongNode); len(wrong) > 0 {
		t.Error(wrong)
	}
	if r.Bound != wantBound {
		t.Errorf("%d pods are bound, want %d", r.Bound, wantBound)
	}
}

// TestNativeGang places gangs of six halves as Kubernetes' own GangScheduling does it:
// once a group fits, its members are reserved while the snapshot shows none of them.
func TestNativeGang(t *testing.T) {
	const size = 6
	c := framework.Start(t, framework.Options{
		Nodes: []corev1.Node{
			pooled("one", gpuNode("gpu", size/2)),
			pooled("several", gpuNode("gpu-a", 1)), pooled("several", gpuNode("gpu-b", 1)), pooled("several", gpuNode("gpu-c", 1)),
		},
		APIServerArgs:         []string{nativeGates, "--runtime-config=scheduling.k8s.io/v1alpha2=true"},
		ControllerManagerArgs: []string{nativeGates},
	})
	c.ApplyManifests(t, "manifests/base")
	c.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: native-gangs}
rules:
- {apiGroups: [scheduling.k8s.io], resources: [podgroups], verbs: [get, list, watch]}
- {apiGroups: [scheduling.k8s.io], resources: [podgroups/status], verbs: [patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: native-gangs}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: native-gangs}
subjects:
- {kind: ServiceAccount, name: `+names.Scheduler+`, namespace: `+names.Namespace+`}
`)
	c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{Args: []string{nativeGates}})
	bound := 0
	for _, pool := range []string{"one", "several"} {
		t.Run(pool, func(t *testing.T) {
			// A tenth of a device is taken: five of six halves fit, and the gang is refused.
			single := gpuPod(pool+"-single", "100")
			single.Spec.NodeSelector = map[string]string{poolLabel: pool}
			create(t, c, single)
			c.WaitForPodScheduled(t, single.Namespace, single.Name)
			gang := nativeGang(t, c, pool, pool+"-gang", size)
			create(t, c, gang...)
			for _, pod := range gang {
				c.WaitForPodUnschedulable(t, pod.Namespace, pod.Name)
			}
			requireDevicesRight(t, c, bound+1)

			// It is tried again, and fits.
			remove(t, c, single)
			for _, pod := range gang {
				c.WaitForPodScheduled(t, pod.Namespace, pod.Name)
			}
			requireDevicesRight(t, c, bound+size)
			devices := map[string]bool{}
			for _, pod := range gang {
				devices[placement(get(t, c, pod.Name))] = true
			}
			if len(devices) != size/2 {
				t.Errorf("%d halves are on the devices %v, want two on each of %d", size, devices, size/2)
			}

			// Another one finds everything taken, and its place once the first is gone.
			next := nativeGang(t, c, pool, pool+"-next", size)
			create(t, c, next...)
			for _, pod := range next {
				c.WaitForPodUnschedulable(t, pod.Namespace, pod.Name)
			}
			requireDevicesRight(t, c, bound+size)
			remove(t, c, gang...)
			for _, pod := range next {
				c.WaitForPodScheduled(t, pod.Namespace, pod.Name)
			}
			bound += size
			requireDevicesRight(t, c, bound)
		})
	}
}
