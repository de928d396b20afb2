// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/minor"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// gpuOperator is what NVIDIA's operator brings to a cluster and pods with shares need.
const gpuOperator = `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}`

// cluster is one with room for two replicas, and a node that shares devices.
func cluster(t *testing.T) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{APIServerArgs: servingPodGroups(), NodeCount: 2, Nodes: []corev1.Node{framework.GPUNode("gpu", "NVIDIA-A100-SXM4-40GB", 2, 40960)}})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.Apply(t, gpuOperator)
	return c
}

// servingPodGroups are the flags with which the API server has Kubernetes' own gangs.
func servingPodGroups() []string {
	gates := "GenericWorkload=true"
	if strings.HasSuffix(minor.PodGroups, "/v1alpha2") {
		gates += ",GangScheduling=true,WorkloadAwarePreemption=true" // Kubernetes 1.36
	}
	return []string{"--feature-gates=" + gates, "--runtime-config=" + minor.PodGroups + "=true"}
}

// release is an installed one, with its scheduler running.
type release struct {
	c               *framework.Cluster
	h               *helm
	name, namespace string
	values          values
	scheduler       *framework.Scheduler
}

// installRelease does what the chart's README says, and plays the kubelet for one replica.
func installRelease(t *testing.T, c *framework.Cluster, h *helm, name, namespace string, v values) *release {
	t.Helper()
	r := &release{c: c, h: h, name: name, namespace: namespace, values: v}
	r.helm(t, "install")
	r.run(t)
	return r
}

// helm installs or upgrades, and waits as an administrator does: for replicas that are
// ready, which kwok says of them when they have a node.
func (r *release) helm(t *testing.T, verb string) {
	t.Helper()
	r.h.must(t, verb, r.name, chartPath, "--namespace="+r.namespace, "--values="+r.values.file(t), "--wait", "--timeout=3m")
}

// run runs the scheduler of the release, in the place of the one before.
func (r *release) run(t *testing.T) {
	t.Helper()
	if r.scheduler != nil {
		r.scheduler.Stop(t)
	}
	r.scheduler = install.StartDeployment(t, r.c, r.namespace, r.name)
	r.scheduler.WaitReady(t)
}

func (r *release) has(feature string) bool {
	return r.values["features"].(map[string]any)[feature] == true
}

func (r *release) profile() string {
	if r.has("tenancy") {
		return r.name + names.TenancySuffix
	}
	return r.name
}

// test runs "helm test", and looks where its pod is.
func (r *release) test(t *testing.T) {
	t.Helper()
	placed := playKubelet(t, r.c, r.namespace, r.name)
	output := r.h.must(t, "test", r.name, "--namespace="+r.namespace, "--timeout=2m")
	if !strings.Contains(output, "Succeeded") {
		t.Errorf("helm test says:\n%s", output)
	}
	pod := <-placed
	if pod.Spec.SchedulerName != r.profile() {
		t.Errorf("helm test placed a pod of %q, want %q", pod.Spec.SchedulerName, r.profile())
	}
	r.c.WaitForEvent(t, r.namespace, pod.Name, "Scheduled", "to "+pod.Spec.NodeName)
	if r.has("gpu") {
		if devices := pod.Annotations[names.GPUDevicesAnnotationPrefix+"main"]; pod.Spec.NodeName != "gpu" || devices == "" {
			t.Errorf("the pod of helm test is on %s with device %q, want a device of node gpu", pod.Spec.NodeName, devices)
		}
	}
}

// playKubelet runs the pod of the next "helm test" of a release, and returns it once it
// has run. kwok says of a pod that it runs, and runs nothing: so its container is run here,
// by its own arguments, once the pod has its node, and how it ended is written into the
// pod's status, as its kubelet would.
func playKubelet(t *testing.T, c *framework.Cluster, namespace, release string) <-chan *corev1.Pod {
	t.Helper()
	name := release + "-placement-test"
	binary := framework.Binary(t, framework.BerthScheduler)
	done := make(chan *corev1.Pod, 1)
	go func() {
		pod := c.WaitForPodScheduled(t, namespace, name)
		output, err := exec.CommandContext(t.Context(), binary, pod.Spec.Containers[0].Args...).CombinedOutput()
		phase := corev1.PodSucceeded
		if err != nil {
			phase = corev1.PodFailed
			t.Errorf("%s: %v\n%s", name, err, output)
		}
		patch := `{"status": {"phase": "` + string(phase) + `"}}`
		if _, err := c.Client.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Error(err)
		}
		done <- pod
	}()
	return done
}

// placeAtRandom runs the random scheduler of the release, and has it bind a pod.
func (r *release) placeAtRandom(t *testing.T) {
	t.Helper()
	name := r.name + "-random"
	deployment, err := r.c.Client.AppsV1().Deployments(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat(deployment.Spec.Template.Spec.Containers[0].Args, []string{"--kubeconfig=" + r.c.ServiceAccountKubeconfig(t, r.namespace, name), "--secure-port=0"})
	random := framework.StartProcess(t, framework.RandomScheduler, args...)
	r.c.PlacePod(t, framework.Pod("default", "random", name))
	random.Stop(t)
	r.c.Kubectl(t, "delete", "pod", "random", "--namespace=default")
}

// checkNothingFound runs "kubectl berth check", which shall find nothing. It tries again: what it says
// of replicas and leases is true a moment after an upgrade.
func checkNothingFound(t *testing.T, c *framework.Cluster) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "kubectl berth check to find nothing", func() (bool, error) {
		cmd := exec.CommandContext(t.Context(), framework.Binary(t, "kubectl-berth"), "check", "--kubeconfig="+c.Kubeconfig)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		err := cmd.Run()
		if err != nil {
			t.Logf("%v: %s", err, &output)
		}
		return err == nil, err
	})
}

// uninstall takes the release away.
func (r *release) uninstall(t *testing.T) {
	t.Helper()
	r.scheduler.Stop(t)
	r.h.must(t, "uninstall", r.name, "--namespace="+r.namespace, "--wait")
}

// everything returns all objects of a cluster but those that come and go by themselves.
func everything(t *testing.T, c *framework.Cluster) map[string]bool {
	t.Helper()
	kinds := slices.DeleteFunc(strings.Fields(c.Kubectl(t, "api-resources", "--verbs=list", "--output=name")), func(kind string) bool {
		return slices.Contains([]string{"events", "events.events.k8s.io", "componentstatuses", "nodes", "csinodes.storage.k8s.io"}, kind)
	})
	output := c.Kubectl(t, "get", strings.Join(kinds, ","), "--all-namespaces", "--ignore-not-found",
		`--output=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	all := map[string]bool{}
	for line := range strings.Lines(output) {
		// A node's lease is the node's.
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "Lease kube-node-lease/") {
			all[line] = true
		}
	}
	return all
}

// checkLeft fails unless an uninstalled release left nothing but what its notes name.
func (r *release) checkLeft(t *testing.T, before map[string]bool) {
	t.Helper()
	allowed := map[string]bool{"Lease " + r.namespace + "/" + r.name: true, "Lease " + r.namespace + "/" + r.name + "-random": true}
	var left []string
	framework.WaitForCondition(t, framework.WaitTimeout, "what the release made to be gone", func() (bool, error) {
		left = nil
		for object := range everything(t, r.c) {
			if !before[object] && !allowed[object] {
				left = append(left, object)
			}
		}
		t.Logf("left: %q", left)
		return len(left) == 0, nil
	})
	r.c.Kubectl(t, "delete", "lease", r.name, "--namespace="+r.namespace, "--ignore-not-found")
}

// placing returns values with which helm test asks for a share, where there are shares.
func placing(set []string) values {
	v := features(set...)
	v["test"] = values{}
	if slices.Contains(set, "gpu") {
		v["test"] = values{"limits": values{names.GPUMilliResource: "100"}}
	}
	return v
}

// TestCombinations installs combinations of features, one after the other: it places a pod,
// looks what is wrong, and takes the release away. make test has those that differ most,
// make test-long all of them, by both versions of Helm.
func TestCombinations(t *testing.T) { //nolint:tparallel // one cluster, one release at a time
	t.Parallel()
	sets := [][]string{{}, {"gpu", "tenancy"}, combined}
	versions := []string{"4"}
	if framework.Long() {
		sets, versions = combinations(), []string{"3", "4"}
	}
	c := cluster(t)
	c.CreateNamespace(t, "berth-one", nil)
	before := everything(t, c)
	for i, set := range sets {
		major := versions[i%len(versions)]
		t.Run(nameOf(set)+" by Helm "+major, func(t *testing.T) {
			r := installRelease(t, c, newHelm(t, major, c.Kubeconfig), "one", "berth-one", placing(set))
			r.test(t)
			checkNothingFound(t, c)
			r.uninstall(t)
			r.checkLeft(t, before)
		})
	}
}

// TestUpgrade goes from one combination of features to another and back within a release.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.CreateNamespace(t, "berth-one", nil)
	before := everything(t, c)
	steps := [][]string{{"labelPresence"}, combined, {"gpu", "colocation"}}
	if framework.Long() {
		steps = append(steps, []string{"tenancy"}, []string{}, []string{"gang"})
	}
	r := installRelease(t, c, newHelm(t, "4", c.Kubeconfig), "one", "berth-one", placing(steps[0]))
	for _, set := range steps[1:] {
		r.values = placing(set)
		r.values["features"].(map[string]any)["randomScheduler"] = len(set) == len(combined)
		r.helm(t, "upgrade")
		r.run(t)
		if r.has("randomScheduler") {
			r.placeAtRandom(t)
		}
		r.test(t)
		checkNothingFound(t, c)
	}
	r.h.must(t, "rollback", r.name, "1", "--namespace="+r.namespace, "--wait")
	r.values = placing(steps[0])
	r.run(t)
	r.test(t)
	checkNothingFound(t, c)
	r.uninstall(t)
	r.checkLeft(t, before)
}

// TestTwoInstances has two releases in one cluster, which share the policies: each places
// its pods, and the one that goes leaves the other alone.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.CreateNamespace(t, "berth-one", nil)
	c.CreateNamespace(t, "berth-two", nil)
	before := everything(t, c)
	h := newHelm(t, "4", c.Kubeconfig)

	first := placing([]string{"gpu", "tenancy"})
	first["exemptNamespaces"] = []any{"kube-system", "berth-two"}
	first["policies"] = values{"otherInstances": []any{values{"name": "two", "namespace": "berth-two", "profile": "two-tenancy"}}}
	second := placing([]string{"gpu", "tenancy", "colocation"})
	second["policies"] = values{"create": []any{"colocation"}}
	second["exemptNamespaces"] = []any{"kube-system", "berth-one"}

	one := installRelease(t, c, h, "one", "berth-one", first)
	two := installRelease(t, c, h, "two", "berth-two", second)
	one.test(t)
	two.test(t)
	checkNothingFound(t, c)

	// A tenant's pods go by either, and by no other.
	c.CreateNode(t, tenantNode("of-a", "a"))
	c.CreateNamespace(t, "team-a", map[string]string{names.TenantLabel: "a"})
	for _, scheduler := range []string{"one-tenancy", "two-tenancy"} {
		pod := framework.Pod("team-a", scheduler, scheduler)
		pod.Spec.Tolerations = []corev1.Toleration{{Key: names.TenantLabel, Operator: corev1.TolerationOpExists}}
		if got, _, _ := strings.Cut(c.PlacePod(t, pod), "/"); got != "of-a" {
			t.Errorf("the tenant's pod of %s is on %s, want of-a", scheduler, got)
		}
	}
	_, err := c.Client.CoreV1().Pods("team-a").Create(t.Context(), framework.Pod("team-a", "stray", "one"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "one-tenancy, two-tenancy") {
		t.Errorf("a tenant's pod of a third scheduler: want it refused by the names of both profiles, got %v", err)
	}

	// The holder of each lease is its own release's.
	for namespace, name := range map[string]string{"berth-one": "one", "berth-two": "two"} {
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
	before["Lease berth-two/two"] = true // which the notes name
	one.checkLeft(t, before)
}

// tenantNode returns a node of a tenant.
func tenantNode(name, tenant string) corev1.Node {
	node := framework.Node(name, map[string]string{names.TenantNodeLabel: tenant})
	node.Spec.Taints = []corev1.Taint{{Key: names.TenantLabel, Value: tenant, Effect: corev1.TaintEffectNoSchedule}}
	return node
}
