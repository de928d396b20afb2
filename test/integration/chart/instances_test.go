// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestTwoInstances has the two releases of the README's section in one cluster, with tenancy
// beside it: they share the policies, each places its pods, and its shares on the nodes of
// its own pool alone; the one that goes leaves the other alone.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.CreateNamespace(t, "berth-system", nil)
	c.CreateNamespace(t, "berth-batch", nil)
	before := everything(t, c)
	h := newHelm(t, "4", c.Kubeconfig)

	first, second := twoInstances(t)
	for _, v := range []values{first, second} {
		v["test"] = sharing()
		v["features"].(map[string]any)["tenancy"] = true
		v["exemptNamespaces"] = []any{"kube-system", "berth-system", "berth-batch"}
	}
	first["policies"].(map[string]any)["otherInstances"].([]any)[0].(map[string]any)["profile"] = "berth-batch-tenancy"

	one := installRelease(t, c, h, "berth", "berth-system", first)
	c.CreateNode(t, pooled(sharedNode("gpu-batch"), "batch"))
	refusesTheSamePool(t, c, h)
	two := installRelease(t, c, h, "berth-batch", "berth-batch", second)
	one.test(t)
	two.test(t)
	checkNothingFound(t, c)
	givesNothingTwice(t, c)
	keepsNodesInTheirPool(t, c)
	keepsItsPriority(t, c)

	// A tenant's pods go by either, and by no other.
	c.CreateNode(t, tenantNode("of-a", "a"))
	c.CreateNamespace(t, "team-a", map[string]string{names.TenantLabel: "a"})
	for _, scheduler := range []string{"berth-tenancy", "berth-batch-tenancy"} {
		pod := framework.Pod("team-a", scheduler, scheduler)
		pod.Spec.Tolerations = []corev1.Toleration{{Key: names.TenantLabel, Operator: corev1.TolerationOpExists}}
		if got, _, _ := strings.Cut(c.PlacePod(t, pod), "/"); got != "of-a" {
			t.Errorf("the tenant's pod of %s is on %s, want of-a", scheduler, got)
		}
	}
	_, err := c.Client.CoreV1().Pods("team-a").Create(t.Context(), framework.Pod("team-a", "stray", "one"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "berth-tenancy, berth-batch-tenancy") {
		t.Errorf("a tenant's pod of a third scheduler: want it refused by the names of both profiles, got %v", err)
	}

	// The holder of each lease is its own release's.
	for namespace, name := range map[string]string{"berth-system": "berth", "berth-batch": "berth-batch"} {
		lease, err := c.Client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || !strings.HasSuffix(*lease.Spec.HolderIdentity, "_"+name+"-tenancy") {
			t.Errorf("lease %s/%s: %v, error %v", namespace, name, lease.Spec.HolderIdentity, err)
		}
	}

	c.Kubectl(t, "delete", "namespace", "team-a")
	c.Kubectl(t, "delete", "node", "of-a")
	two.uninstall(t)
	one.test(t)
	one.uninstall(t)
	before["Lease berth-batch/berth-batch"] = true // which the notes name
	one.checkLeft(t, before)
}

// pooled returns the node in a GPU pool.
func pooled(node corev1.Node, pool string) corev1.Node {
	node.Labels[names.GPUPoolLabel] = pool
	return node
}

// refusesTheSamePool tries to install a second instance with the pool of the first, by all
// means that there are.
func refusesTheSamePool(t *testing.T, c *framework.Cluster, h *helm) {
	t.Helper()
	second := &release{c: c, h: h, name: "second", namespace: "berth-batch", values: features("gpu")}
	second.values["policies"] = values{"create": []any{}}
	second.refused(t, "install", `gpu.pool: release berth in namespace berth-system holds the binding of GPU pool ""`)

	// Without a look at the cluster, as by Argo CD, or at the same moment: the API server refuses.
	text, err := h.template(t, "second", "berth-batch", second.values)
	if err != nil {
		t.Fatal(err)
	}
	rendered := filepath.Join(t.TempDir(), "second.yaml")
	if err := os.WriteFile(rendered, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"helm template | kubectl apply": c.KubectlErr(t, "apply", "--dry-run=server", "-f", rendered),
		"kustomize":                     c.KubectlErr(t, "apply", "--dry-run=server", "-f", install.Path("manifests/base/rbac.yaml")),
	} {
		if !strings.Contains(got, `ClusterRoleBinding "berth:gpu-pool" is invalid: roleRef: Invalid value`) {
			t.Errorf("%s: want the binding berth:gpu-pool refused, got %s", name, got)
		}
	}
}

// givesNothingTwice has 24 halves for 12 devices, 6 in each pool, at once.
func givesNothingTwice(t *testing.T, c *framework.Cluster) {
	t.Helper()
	const each = 12
	pools := map[string]string{"berth-tenancy": "", "berth-batch-tenancy": "batch"}
	for i := range 2 {
		c.CreateNode(t, sharedNode(fmt.Sprintf("more-%d", i)))
		c.CreateNode(t, pooled(sharedNode(fmt.Sprintf("more-batch-%d", i)), "batch"))
	}
	for i := range each {
		for scheduler := range pools {
			pod := framework.SharePod(fmt.Sprintf("half-%s-%d", scheduler, i), "500")
			pod.Spec.SchedulerName = scheduler
			pod.Spec.Tolerations = []corev1.Toleration{{Key: names.GPUSharingLabel, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
			if _, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range each {
		for scheduler, pool := range pools {
			pod := c.WaitForPodScheduled(t, "default", fmt.Sprintf("half-%s-%d", scheduler, i))
			node, err := c.Client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil || node.Labels[names.GPUPoolLabel] != pool {
				t.Errorf("%s has pod %s on node %s of pool %q, want its own, %q", scheduler, pod.Name, node.Name, node.Labels[names.GPUPoolLabel], pool)
			}
		}
	}
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if violations := oracle.CheckUsage(nodes.Items, pods.Items); len(violations) > 0 {
		t.Errorf("%v", violations)
	}
	// Every device is full, so none of the pods is anywhere else.
	c.Kubectl(t, "delete", "pods", "--namespace=default", "--all", "--force", "--grace-period=0")
	c.Kubectl(t, "delete", "nodes", "more-0", "more-1", "more-batch-0", "more-batch-1")
}

// keepsItsPriority: the PriorityClass of each release is for the pods of its namespace alone.
func keepsItsPriority(t *testing.T, c *framework.Cluster) {
	t.Helper()
	for class, home := range map[string]string{"berth": "berth-system", "berth-batch": "berth-batch"} {
		for _, namespace := range []string{"default", "kube-system", "berth-system", "berth-batch"} {
			pod := framework.Pod(namespace, "first", "nobody")
			pod.Spec.PriorityClassName = class
			_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if refused := err != nil && strings.Contains(err.Error(), "is reserved for berth-scheduler, in namespace "+home); refused != (namespace != home) {
				t.Errorf("a pod of namespace %s with class %s: %v", namespace, class, err)
			}
		}
	}
}

// keepsNodesInTheirPool: the label of a shared node does not change, and does in two steps.
func keepsNodesInTheirPool(t *testing.T, c *framework.Cluster) {
	t.Helper()
	if got := c.KubectlErr(t, "label", "node", "gpu", names.GPUPoolLabel+"=batch"); !strings.Contains(got, "while the node shares its devices") {
		t.Errorf("want it refused, got %s", got)
	}
	if got := c.KubectlErr(t, "label", "node", "gpu-batch", names.GPUPoolLabel+"-"); !strings.Contains(got, "while the node shares its devices") {
		t.Errorf("want it refused, got %s", got)
	}
	c.Kubectl(t, "label", "node", "gpu", names.GPUSharingLabel+"=false", "--overwrite")
	c.Kubectl(t, "label", "node", "gpu", names.GPUPoolLabel+"=batch")
	c.Kubectl(t, "label", "node", "gpu", names.GPUPoolLabel+"-")
	c.Kubectl(t, "label", "node", "gpu", names.GPUSharingLabel+"=true", "--overwrite")
}

// tenantNode returns a node of a tenant.
func tenantNode(name, tenant string) corev1.Node {
	node := framework.Node(name, map[string]string{names.TenantNodeLabel: tenant})
	node.Spec.Taints = []corev1.Taint{{Key: names.TenantLabel, Value: tenant, Effect: corev1.TaintEffectNoSchedule}}
	return node
}
