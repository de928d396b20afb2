// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpunuma shows on a real API server that pods go to nodes one of whose NUMA
// zones has what they ask for, with devices beside it: NodeResourceTopologyMatch in the
// profile config/berth-scheduler/gpu-numa.yaml, with the CRD and the rights of
// manifests/components/numa. No kubelet is there to choose the zone.
package gpunuma

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/k8stopologyawareschedwg/podfingerprint"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

const (
	numaProfile = "config/berth-scheduler/gpu-numa.yaml"
	wholeGPU    = "nvidia.com/gpu"
)

// zones is what is free in the NUMA zones of a node, by the zone's name.
type zones map[string]map[string]int

// describe writes a node's NodeResourceTopology as its agent does: zones of a kubelet with
// the policy single-numa-node, and the fingerprint of the pods that the agent has seen.
func describe(t *testing.T, c *framework.Cluster, node string, free zones, pods ...*corev1.Pod) {
	t.Helper()
	fingerprint := podfingerprint.NewFingerprint(len(pods))
	for _, pod := range pods {
		if err := fingerprint.AddPod(pod); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, `
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: %s}
attributes:
- {name: topologyManagerPolicy, value: single-numa-node}
- {name: topologyManagerScope, value: container}
- {name: %s, value: %s}
zones:
`, node, podfingerprint.Attribute, fingerprint.Sign())
	for _, zone := range slices.Sorted(maps.Keys(free)) {
		fmt.Fprintf(&text, "- name: %s\n  type: Node\n  resources:\n", zone)
		fmt.Fprintf(&text, "  - {name: memory, capacity: 64Gi, allocatable: 64Gi, available: 64Gi}\n")
		for _, name := range slices.Sorted(maps.Keys(free[zone])) {
			fmt.Fprintf(&text, "  - {name: %s, capacity: 16, allocatable: 16, available: %d}\n", name, free[zone][name])
		}
	}
	c.Apply(t, text.String())
}

// cpuPod returns a pod of quality of service Guaranteed, to which alone a kubelet gives
// CPUs of one zone.
func cpuPod(name, cpu string, further corev1.ResourceList) *corev1.Pod {
	pod := framework.Pod(metav1.NamespaceDefault, name, names.Scheduler)
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
	maps.Copy(limits, further)
	pod.Spec.Containers[0].Resources.Limits = limits
	return pod
}

func share(milli string) corev1.ResourceList {
	return corev1.ResourceList{names.GPUMilliResource: resource.MustParse(milli)}
}

// pinned returns the pod with the node that it is to go to.
func pinned(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

// TestZones has pods go to nodes whose zones have room, though another node would be the
// better one by its devices.
func TestZones(t *testing.T) {
	gpu := func(name string) corev1.Node { return framework.GPUNode(name, "NVIDIA-A100-SXM4-80GB", 1, 81920) }
	plugin := func(name string) corev1.Node {
		node := framework.Node(name, nil)
		node.Status.Capacity[wholeGPU] = resource.MustParse("2")
		node.Status.Allocatable[wholeGPU] = resource.MustParse("2")
		return node
	}
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{gpu("narrow"), gpu("wide"), gpu("gap"), plugin("apart"), plugin("together")}})
	c.ApplyManifests(t, "manifests/base", "manifests/components/numa/noderesourcetopologies.yaml", "manifests/components/numa/rbac.yaml")
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/noderesourcetopologies.topology.node.k8s.io")
	describe(t, c, "narrow", zones{"node-0": {"cpu": 4}, "node-1": {"cpu": 4}})
	describe(t, c, "wide", zones{"node-0": {"cpu": 2}, "node-1": {"cpu": 9}})
	describe(t, c, "gap", zones{"node-0": {"cpu": 4}, "node-2": {"cpu": 4}})
	describe(t, c, "apart", zones{"node-0": {"cpu": 9, wholeGPU: 0}, "node-1": {"cpu": 2, wholeGPU: 2}})
	describe(t, c, "together", zones{"node-0": {"cpu": 9, wholeGPU: 1}, "node-1": {"cpu": 2, wholeGPU: 1}})
	scheduler := c.StartBerthScheduler(t, numaProfile, framework.SchedulerOptions{})

	// A share on the narrow node, which GPUDevice would fill next.
	if got := c.PlacePod(t, pinned(cpuPod("first", "1", share("400")), "narrow")); got != "narrow/0" {
		t.Errorf("the first share is at %s", got)
	}
	if got := c.PlacePod(t, cpuPod("packed", "1", share("100"))); got != "narrow/0" {
		t.Errorf("a share that fits in a zone of the node that is filled is at %s", got)
	}
	if got := c.PlacePod(t, cpuPod("large", "6", share("500"))); got != "wide/0" {
		t.Errorf("a share with more CPUs than a zone of the node that is filled has is at %s", got)
	}
	if got := c.PlacePod(t, cpuPod("whole", "4", corev1.ResourceList{wholeGPU: resource.MustParse("1")})); got != "together/" {
		t.Errorf("a whole device with CPUs of its zone is at %s", got)
	}

	// What the plugin panics over: this pod is placed, and the scheduler goes on.
	if got := c.PlacePod(t, pinned(cpuPod("gap", "1", share("100")), "gap")); got != "gap/0" {
		t.Errorf("a share on a node without a zone 1 is at %s", got)
	}

	// What is given away is free in no zone until the agent has seen the pods go.
	keeper := pinned(cpuPod("keeper", "1", nil), "wide")
	c.PlacePod(t, keeper)
	next := pinned(cpuPod("next", "5", share("100")), "wide")
	c.CreatePod(t, next)
	c.WaitForPodUnschedulable(t, next.Namespace, next.Name)
	c.WaitForEvent(t, next.Namespace, next.Name, "FailedScheduling", "cannot align container")
	c.Kubectl(t, "delete", "pod", "large", "--wait=true")
	c.WaitForPodRunning(t, keeper.Namespace, keeper.Name)
	free := 7
	c.WaitForPod(t, next.Namespace, next.Name, "to have a node when its zones are free", func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName == "" {
			free = 15 - free // an agent writes again and again, and each change wakes the pod
			describe(t, c, "wide", zones{"node-0": {"cpu": 1}, "node-1": {"cpu": free}}, keeper)
		}
		return pod.Spec.NodeName == "wide"
	})
	if err := scheduler.Ready(t); err != nil {
		t.Error(err)
	}
}

// TestDefinition makes sure that the CRD we ship is the one of the module that is
// compiled in.
func TestDefinition(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/k8stopologyawareschedwg/noderesourcetopology-api")
	list.Dir = framework.Root()
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	module, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "manifests/crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile(install.Path("manifests/components/numa/noderesourcetopologies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, definition, _ := strings.Cut(string(shipped), "apiVersion:")
	if diff := cmp.Diff(string(module), "apiVersion:"+definition); diff != "" {
		t.Errorf("the CRD differs from the module's (-module,+shipped):\n%s", diff)
	}
}

// TestComponent builds manifests/README.md's kustomization of NUMA zones.
func TestComponent(t *testing.T) {
	dir := t.TempDir()
	relative, err := filepath.Rel(dir, install.Path("manifests"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- MANIFESTS/base
components:
- MANIFESTS/components/gpu
- MANIFESTS/components/numa
`, "MANIFESTS", relative)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	deployment := install.Find[appsv1.Deployment](t, install.Build(t, dir), "Deployment", names.Scheduler)
	if diff := cmp.Diff([]string{"--config=/etc/berth-scheduler/gpu-numa.yaml"}, deployment.Spec.Template.Spec.Containers[0].Args); diff != "" {
		t.Errorf("Unexpected arguments (-want,+got):\n%s", diff)
	}
}
