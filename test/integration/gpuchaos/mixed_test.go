// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// careless is stock kube-scheduler that is told not to count our resources, as the
// shipped profile tells NodeResourcesFit. It binds shares without devices.
const careless = "test/integration/gpuchaos/testdata/careless.yaml"

// pluginNodes are n nodes whose device plugin hands out whole devices.
func pluginNodes(n int, devices string) []corev1.Node {
	nodes := make([]corev1.Node, 0, n)
	for i := range n {
		node := framework.Node(fmt.Sprintf("plugin-%d", i), nil)
		node.Status.Capacity["nvidia.com/gpu"] = resource.MustParse(devices)
		node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(devices)
		nodes = append(nodes, node)
	}
	return nodes
}

// wholePod asks a device plugin for one device.
func wholePod(name string) *corev1.Pod {
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	return gpuchurn.Pod(name, corev1.Container{
		Name: "main", Image: "registry.example.com/app",
		Resources: corev1.ResourceRequirements{Limits: one, Requests: one},
	})
}

// byNode returns the names of the pods on each node.
func byNode(pods []corev1.Pod) map[string][]string {
	on := map[string][]string{}
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" {
			on[node] = append(on[node], pods[i].Name)
		}
	}
	return on
}

func by(scheduler string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulerName = scheduler
	return pod
}

// TestMixedPool has default-scheduler and Berth place pods with devices on one
// pool. Which devices default-scheduler's pods use, nobody knows: their nodes take
// no new share.
func TestMixedPool(t *testing.T) {
	const shared, devices, plugin = 4, 2, 3
	nodes := append(gpuchurn.Nodes(shared, devices), pluginNodes(plugin, "4")...)
	both := gpuchurn.Nodes(1, devices)[0]
	both.Name = "both"
	both.Labels[corev1.LabelHostname] = both.Name
	both.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("2")
	both.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2")
	c := framework.Start(t, framework.Options{Nodes: append(nodes, both)})
	c.ApplyManifests(t, "manifests/base")
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	stock := c.StartStockScheduler(t, "", framework.SchedulerOptions{})

	t.Run("as it is, default-scheduler places no share", func(t *testing.T) {
		c.CreatePod(t, by(corev1.DefaultSchedulerName, gpuchurn.SharePod("refused", "500")))
		pod := c.WaitForPodUnschedulable(t, namespace, "refused")
		if message := framework.PodScheduledCondition(pod).Message; !strings.Contains(message, "Insufficient "+names.GPUMilliResource) {
			t.Errorf("the reason is %q", message)
		}
		forceDelete(t, c, "refused")
	})
	t.Run("whole devices of a plugin", func(t *testing.T) {
		// More than there are, by both, at once: 12 devices on three nodes and two on
		// the one that says both, which is nobody's but the plugin's.
		for i := range 10 {
			c.CreatePod(t, by(corev1.DefaultSchedulerName, wholePod(fmt.Sprintf("stock-%d", i))))
			c.CreatePod(t, wholePod(fmt.Sprintf("berth-%d", i)))
		}
		c.CreatePod(t, gpuchurn.SharePod("share", "500"))
		c.WaitForPodScheduled(t, namespace, "share")
		var on map[string][]string
		framework.WaitForCondition(t, framework.WaitTimeout, "the devices of the plugin to be taken", func() (bool, error) {
			_, pods, err := gpuchurn.Check(t.Context(), c)
			on = byNode(pods)
			taken := len(on["both"])
			for i := range plugin {
				taken += len(on[fmt.Sprintf("plugin-%d", i)])
			}
			return taken >= 14, err
		})
		for node, pods := range on {
			if strings.HasPrefix(node, "plugin-") && len(pods) > 4 || node == "both" && len(pods) > 2 {
				// Of these the kubelet admits as many as there are devices. It is the
				// race that any two schedulers run over any resource.
				t.Logf("node %s has more pods than devices: %v", node, pods)
			}
			if strings.HasPrefix(node, "gpu-") && slices.ContainsFunc(pods, func(name string) bool { return name != "share" }) {
				t.Errorf("node %s shares its devices and was given %v", node, pods)
			}
		}
		if slices.Contains(on["both"], "share") {
			t.Error("a share went to the node whose plugin hands out the same devices")
		}
		for i := range 10 {
			forceDelete(t, c, fmt.Sprintf("stock-%d", i))
			forceDelete(t, c, fmt.Sprintf("berth-%d", i))
		}
		forceDelete(t, c, "share")
	})
	stock.Stop(t)
	c.StartStockScheduler(t, careless, framework.SchedulerOptions{})

	t.Run("a node with a share that nobody recorded is refused", func(t *testing.T) {
		for _, name := range []string{"unknown-0", "unknown-1"} {
			c.CreatePod(t, by(corev1.DefaultSchedulerName, gpuchurn.SharePod(name, "100")))
			c.WaitForPodScheduled(t, namespace, name)
		}
		requireWarned(t, c, "GPUDevicesUnknown", "takes no new shares", "unknown-0", "unknown-1")
		for i := range 2 * shared * devices {
			c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("half-%d", i), "500"))
		}
		r, pods := gpuchurn.WaitSettled(t, c, -1)
		requireUnknown(t, r, "unknown-")
		requireMetric(t, s, "berth_gpudevice_pods_without_allocation_total", 2)
		for node, names := range byNode(pods) {
			if r.Blocked.Has(node) && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "half-") }) {
				t.Errorf("node %s is blocked and was given %v", node, names)
			}
		}
		gpuchurn.RequireView(t, c, s, names.Scheduler)
		// They go, and the nodes are open again: every half has its place then.
		forceDelete(t, c, "unknown-0")
		forceDelete(t, c, "unknown-1")
		requireRight(t, c, s, 2*shared*devices)
		for i := range 2 * shared * devices {
			forceDelete(t, c, fmt.Sprintf("half-%d", i))
		}
	})
}

// requireUnknown fails if there are other violations than pods of a prefix without a
// record, wherever they are.
func requireUnknown(t *testing.T, r *oracle.Devices, prefix string) {
	t.Helper()
	for _, violation := range r.Violations {
		kinds := []oracle.Kind{oracle.Unrecorded, oracle.Torn, oracle.WrongNode}
		if !slices.Contains(kinds, violation.Kind) || !strings.HasPrefix(violation.Object, namespace+"/"+prefix) {
			t.Error(violation)
		}
	}
}
