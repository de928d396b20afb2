// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
)

const (
	// poolLabel keeps the pods of one subtest from the nodes of the others.
	poolLabel = "pool"
	// urgent is a PriorityClass.
	urgent = "urgent"
)

// featureGates are the flag for all gates.
const featureGates = "--feature-gates=" + gangGates

// startNative starts a control plane with PodGroups and these nodes, and perhaps with an
// audit log. It has no scheduler.
func startNative(t *testing.T, nodes []corev1.Node, audit bool) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{
		Nodes:                 nodes,
		Audit:                 audit,
		APIServerArgs:         []string{featureGates, "--runtime-config=scheduling.k8s.io/" + groupVersion + "=true"},
		ControllerManagerArgs: []string{featureGates},
	})
	c.ApplyManifests(t, "manifests/base", "manifests/components/gangscheduling/rbac.yaml")
	c.Apply(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: `+urgent+`}
value: 1000
`)
	return c
}

// startNativeScheduler starts berth-scheduler with these gates, behind a proxy that hands
// its Bindings to binding; nil lets all through. It ends with the test.
func startNativeScheduler(t *testing.T, c *framework.Cluster, gates string, binding func(*faultproxy.Binding) *faultproxy.Answer) *framework.Scheduler {
	t.Helper()
	if binding == nil {
		binding = passOn
	}
	proxy := faultproxy.Start(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), faultproxy.Hooks{Binding: binding})
	return c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{Kubeconfig: proxy.Kubeconfig, Args: []string{"--feature-gates=" + gates}})
}

// passOn sends a Binding and returns the API server's answer.
func passOn(b *faultproxy.Binding) *faultproxy.Answer {
	answer, err := b.Send()
	if err != nil {
		return nil
	}
	return answer
}

func pooled(pool string, node corev1.Node) corev1.Node {
	node.Labels[poolLabel] = pool
	return node
}

// inPool keeps a pod on the nodes of a pool.
func inPool(pool string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{poolLabel: pool}
	return pod
}

// podGroups are the PodGroups of Kubernetes, of which every minor has another version.
func podGroups(t *testing.T, c *framework.Cluster) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: groupVersion, Resource: "podgroups"}).Namespace(metav1.NamespaceDefault)
}

// createGroup creates a PodGroup of which so many members must fit at once, and which
// is evicted as a whole.
func createGroup(t *testing.T, c *framework.Cluster, name string, minCount int, priorityClass string) {
	t.Helper()
	spec := map[string]any{
		"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(minCount)}},
		"disruptionMode":   asAWhole,
	}
	if priorityClass != "" {
		spec["priorityClassName"] = priorityClass
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/" + groupVersion, "kind": "PodGroup", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := podGroups(t, c).Create(t.Context(), group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deleteGroup(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	if err := podGroups(t, c).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// member lets a pod join a PodGroup.
func member(group string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return pod
}

// expectScheduled waits until all of the pods have a node.
func expectScheduled(t *testing.T, c *framework.Cluster, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		c.WaitForPodScheduled(t, pod.Namespace, pod.Name)
	}
}

// expectUnschedulable waits until all of the pods have been refused.
func expectUnschedulable(t *testing.T, c *framework.Cluster, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		c.WaitForPodUnschedulable(t, pod.Namespace, pod.Name)
	}
}

// wrongIn returns what is wrong with devices. A member of a gang that does not fit as a
// whole waits although a node has room for it, and one that was not tried yet has no
// condition: both are right.
func wrongIn(r *oracle.Devices) oracle.Violations {
	return r.Violations.Of(oracle.Overcommitted, oracle.OvercommittedMemory, oracle.Unrecorded, oracle.Torn, oracle.WrongRecord, oracle.WrongNode)
}

// checkDevices has the oracle check all nodes and pods.
func checkDevices(t *testing.T, c *framework.Cluster) (*oracle.Devices, oracle.Violations) {
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
	return r, wrongIn(r)
}

// requireDevicesRight fails if the oracle finds a device allocated more than once.
func requireDevicesRight(t *testing.T, c *framework.Cluster) {
	t.Helper()
	if _, wrong := checkDevices(t, c); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// requireAllGiven fails unless all of the pool's devices are given away, to the last
// thousandth, as the oracle counts.
func requireAllGiven(t *testing.T, c *framework.Cluster, pool string) {
	t.Helper()
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: poolLabel + "=" + pool})
	if err != nil {
		t.Fatal(err)
	}
	inPool := map[string]bool{}
	for i := range nodes.Items {
		inPool[nodes.Items[i].Name] = true
	}
	r, wrong := checkDevices(t, c)
	if len(wrong) > 0 {
		t.Error(wrong)
	}
	for _, device := range r.All {
		if inPool[device.Node] && device.FreeMilli != 0 {
			t.Errorf("%d thousandths of device %d of node %s are free, which is given to %v", device.FreeMilli, device.Index, device.Node, device.Allocations)
		}
	}
}

// overtaken is what the scheduler says of a pod for which Reserve found no room on the
// node that Filter let through.
const overtaken = "was chosen and has no room any more"

// requireNotOvertaken fails if that happened: within the cycle of a gang nobody else takes
// anything.
func requireNotOvertaken(t *testing.T, s *framework.Scheduler) {
	t.Helper()
	if n := strings.Count(s.Output(), overtaken); n > 0 {
		t.Errorf("%d times a node was chosen that had no room any more", n)
	}
}
