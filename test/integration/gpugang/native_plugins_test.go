// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// allPlugins is the profile that manifests/base installs.
const allPlugins = "config/berth-scheduler/all-plugins.yaml"

// TestNativeGangsOfOtherPlugins places gangs that LabelPresence and Colocation judge, as
// TestNativeGangs does with those that GPUDevice does: refused as a whole, tried again
// when what they wait for comes, and making room for themselves as a whole. What was
// reserved for members of a gang that does not fit is forgotten.
func TestNativeGangsOfOtherPlugins(t *testing.T) {
	c := startNative(t, nil, false)
	c.StartBerthScheduler(t, allPlugins, framework.SchedulerOptions{Args: []string{featureGates}})
	for _, test := range []struct {
		pool string
		run  func(*testing.T, *framework.Cluster, string)
	}{
		{"label", testGangNeedsLabel},
		{"label-preempting", testGangWithLabelPreempts},
		{"service", testGangNearService},
		{"each-other", testGangNearItself},
		{"service-preempting", testGangNearServicePreempts},
	} {
		t.Run(test.pool, func(t *testing.T) { test.run(t, c, test.pool) })
	}
}

// cpuNodes creates nodes of 4 CPUs for a pool, each given as name=zone, and returns when
// they are ready.
func cpuNodes(t *testing.T, c *framework.Cluster, pool string, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		name, zone, _ := strings.Cut(node, "=")
		made := framework.Node(pool+"-"+name, map[string]string{corev1.LabelTopologyZone: pool + "-" + zone, poolLabel: pool})
		for _, list := range []corev1.ResourceList{made.Status.Capacity, made.Status.Allocatable} {
			list[corev1.ResourceCPU] = resource.MustParse("4")
		}
		c.AddNode(t, made)
	}
}

// cpuPod is a pod of the pool's nodes with so many CPUs, behind the Service of its app.
func cpuPod(pool, app, name, namespace string, cpus int64) *corev1.Pod {
	pod := inPool(pool, framework.Pod(namespace, pool+"-"+name, names.Scheduler))
	pod.Labels["app"] = pool + "-" + app
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
	return pod
}

// cpuGang creates a PodGroup, and returns its members; app is the last part of its name.
func cpuGang(t *testing.T, c *framework.Cluster, pool, name string, size int, cpus int64, priorityClass string) []*corev1.Pod {
	t.Helper()
	createGroup(t, c, pool+"-"+name, size, priorityClass)
	var pods []*corev1.Pod
	for i := range size {
		pod := member(pool+"-"+name, cpuPod(pool, name, fmt.Sprintf("%s-%d", name, i), metav1.NamespaceDefault, cpus))
		pod.Spec.PriorityClassName = priorityClass
		pods = append(pods, pod)
	}
	return pods
}

// near has the pods require to be near a Service of the pool.
func near(pool, service, topologyKey string, pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		pod.Annotations[names.ColocateWithAnnotation] = pool + "-" + service
		pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation] = topologyKey
	}
	return pods
}

// service creates a Service of the pool in front of the pods of its app.
func service(t *testing.T, c *framework.Cluster, pool, app string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {selector: {app: %[1]s}, ports: [{port: 80}]}
`, pool+"-"+app))
}

// nodesOf waits until all of the pods have a node, and returns those nodes, without the
// pool's name, once each.
func nodesOf(t *testing.T, c *framework.Cluster, pool string, pods []*corev1.Pod) map[string]int {
	t.Helper()
	nodes := map[string]int{}
	for _, pod := range pods {
		nodes[strings.TrimPrefix(c.WaitForPodScheduled(t, pod.Namespace, pod.Name).Spec.NodeName, pool+"-")]++
	}
	return nodes
}

// requireUnbound fails if one of the pods has a node.
func requireUnbound(t *testing.T, c *framework.Cluster, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if node := get(t, c, pod.Name).Spec.NodeName; node != "" {
			t.Errorf("pod %s of a gang that does not fit has node %s", pod.Name, node)
		}
	}
}

// selectable marks a node of the pool for the rule of the profile.
func selectable(t *testing.T, c *framework.Cluster, pool string, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		c.Kubectl(t, "label", "node", pool+"-"+node, "selectable=")
	}
}

// withRule lets the profile's rule apply to namespace default, until what it returns is
// called.
func withRule(t *testing.T, c *framework.Cluster) (without func()) {
	t.Helper()
	c.Kubectl(t, "label", "namespace", metav1.NamespaceDefault, "selectable=")
	return func() { c.Kubectl(t, "label", "namespace", metav1.NamespaceDefault, "selectable-") }
}

// testGangNeedsLabel: three members of 4 CPUs need three nodes with the label.
func testGangNeedsLabel(t *testing.T, c *framework.Cluster, pool string) {
	defer withRule(t, c)()
	cpuNodes(t, c, pool, "a=a", "b=a", "c=a", "d=a")
	selectable(t, c, pool, "a", "b")
	gang := cpuGang(t, c, pool, "gang", 3, 4, "")
	create(t, c, gang...)
	expectUnschedulable(t, c, gang)
	requireUnbound(t, c, gang)

	selectable(t, c, pool, "d")
	if got := nodesOf(t, c, pool, gang); got["a"] != 1 || got["b"] != 1 || got["d"] != 1 {
		t.Errorf("the gang is on %v", got)
	}
	remove(t, c, gang...)
}

// testGangWithLabelPreempts: pods of lower priority go from the nodes with the label, and
// stay on the one without, where less would have to go.
func testGangWithLabelPreempts(t *testing.T, c *framework.Cluster, pool string) {
	defer withRule(t, c)()
	cpuNodes(t, c, pool, "a=a", "b=a", "c=a")
	selectable(t, c, pool, "a", "b", "c")
	low := []*corev1.Pod{
		cpuPod(pool, "low", "low-0", metav1.NamespaceDefault, 2), cpuPod(pool, "low", "low-1", metav1.NamespaceDefault, 2),
		cpuPod(pool, "low", "low-2", metav1.NamespaceDefault, 4), cpuPod(pool, "low", "low-3", metav1.NamespaceDefault, 1),
	}
	for i, node := range []string{"a", "a", "b", "c"} {
		low[i].Spec.NodeSelector[corev1.LabelHostname] = pool + "-" + node
	}
	create(t, c, low...)
	expectScheduled(t, c, low)
	c.Kubectl(t, "label", "node", pool+"-c", "selectable-")

	gang := cpuGang(t, c, pool, "gang", 2, 4, urgent)
	create(t, c, gang...)
	if got := nodesOf(t, c, pool, gang); got["a"] != 1 || got["b"] != 1 {
		t.Errorf("the gang is on %v", got)
	}
	if got := left(t, c, low[3:]); got != 1 {
		t.Error("a pod is gone from the node that the gang's pods may not have")
	}
	remove(t, c, append(gang, low...)...)
}

// testGangNearService: a gang that requires to be near a Service waits for its pod, does
// not fit around it while other pods are there, leaves nothing reserved, and fits when
// they go.
func testGangNearService(t *testing.T, c *framework.Cluster, pool string) {
	cpuNodes(t, c, pool, "a=a", "b=a", "c=c", "d=c")
	service(t, c, pool, "backend")
	service(t, c, pool, "gang")
	gang := near(pool, "backend", corev1.LabelTopologyZone, cpuGang(t, c, pool, "gang", 3, 2, ""))
	create(t, c, gang...)
	expectUnschedulable(t, c, gang)
	requireUnbound(t, c, gang)

	// Three times 2 CPUs, beside 1 of the backend and 4 of another pod: no.
	other := cpuPod(pool, "other", "other", metav1.NamespaceDefault, 4)
	other.Spec.NodeSelector[corev1.LabelHostname] = pool + "-b"
	create(t, c, other)
	expectScheduled(t, c, []*corev1.Pod{other})
	backend := cpuPod(pool, "backend", "backend", metav1.NamespaceDefault, 1)
	backend.Spec.NodeSelector[corev1.LabelHostname] = pool + "-a"
	create(t, c, backend)
	expectScheduled(t, c, []*corev1.Pod{backend})
	framework.WaitForCondition(t, framework.WaitTimeout, "the gang to wait for CPUs", func() (bool, error) {
		var messages []string
		for _, pod := range gang {
			messages = append(messages, framework.PodScheduledCondition(get(t, c, pod.Name)).Message)
		}
		waits := func(text string) bool {
			return slices.ContainsFunc(messages, func(message string) bool { return strings.Contains(message, text) })
		}
		return waits("Insufficient cpu") && !waits("waiting for a Service"), fmt.Errorf("they are told %q", messages)
	})
	requireUnbound(t, c, gang)

	// Members had a node within the cycle: nobody finds them there afterwards.
	follower := near(pool, "gang", corev1.LabelTopologyZone, []*corev1.Pod{cpuPod(pool, "follower", "follower", metav1.NamespaceDefault, 1)})
	create(t, c, follower...)
	c.WaitForEvent(t, metav1.NamespaceDefault, follower[0].Name, "FailedScheduling", "none of its pods has a node yet")
	requireUnbound(t, c, follower)

	remove(t, c, other)
	if got := nodesOf(t, c, pool, gang); got["a"] != 1 || got["b"] != 2 {
		t.Errorf("the gang is on %v", got)
	}
	if got := nodesOf(t, c, pool, follower); got["a"]+got["b"] != 1 {
		t.Errorf("who requires to be near the gang is on %v", got)
	}
	remove(t, c, append(append(gang, follower...), backend)...)
}

// testGangNearItself: members that require to be near each other see each other within
// the cycle.
func testGangNearItself(t *testing.T, c *framework.Cluster, pool string) {
	cpuNodes(t, c, pool, "a=a", "b=b", "c=c", "d=a", "e=b", "f=c")
	service(t, c, pool, "gang")
	gang := near(pool, "gang", corev1.LabelTopologyZone, cpuGang(t, c, pool, "gang", 4, 2, ""))
	create(t, c, gang...)
	got := nodesOf(t, c, pool, gang)
	if got["a"]+got["d"] != 4 && got["b"]+got["e"] != 4 && got["c"]+got["f"] != 4 {
		t.Errorf("members that require to be in one zone are on %v", got)
	}
	remove(t, c, gang...)

	// More than a zone has room for.
	five := near(pool, "gang", corev1.LabelTopologyZone, cpuGang(t, c, pool, "five", 5, 2, ""))
	for _, pod := range five {
		pod.Labels["app"] = pool + "-gang"
	}
	create(t, c, five...)
	expectUnschedulable(t, c, five)
	requireUnbound(t, c, five)
	remove(t, c, five...)
}

// testGangNearServicePreempts: a gang evicts pods near the Service, and none elsewhere.
func testGangNearServicePreempts(t *testing.T, c *framework.Cluster, pool string) {
	cpuNodes(t, c, pool, "a=a", "b=b", "c=a")
	service(t, c, pool, "backend")
	backend := cpuPod(pool, "backend", "backend", metav1.NamespaceDefault, 1)
	backend.Spec.PriorityClassName = urgent
	low := []*corev1.Pod{
		cpuPod(pool, "low", "low-0", metav1.NamespaceDefault, 3), cpuPod(pool, "low", "low-1", metav1.NamespaceDefault, 1),
		cpuPod(pool, "low", "low-2", metav1.NamespaceDefault, 4),
	}
	backend.Spec.NodeSelector[corev1.LabelHostname] = pool + "-a"
	for i, node := range []string{"a", "b", "c"} {
		low[i].Spec.NodeSelector[corev1.LabelHostname] = pool + "-" + node
	}
	all := append([]*corev1.Pod{backend}, low...)
	create(t, c, all...)
	expectScheduled(t, c, all)

	gang := near(pool, "backend", corev1.LabelTopologyZone, cpuGang(t, c, pool, "gang", 2, 3, urgent))
	create(t, c, gang...)
	if got := nodesOf(t, c, pool, gang); got["a"] != 1 || got["c"] != 1 {
		t.Errorf("the gang is on %v", got)
	}
	if left(t, c, low[1:2]) != 1 || left(t, c, all[:1]) != 1 {
		t.Error("a pod is gone from a node that is not near the Service, or from behind it")
	}
	remove(t, c, append(gang, all...)...)
}
