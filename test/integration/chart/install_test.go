// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// gpuOperator is what NVIDIA's operator brings to a cluster and pods with shares need.
const gpuOperator = `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}`

// cluster is one with room for two replicas, and a node that shares devices.
func cluster(t *testing.T) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{APIServerArgs: servingPodGroups(), NodeCount: 2, Nodes: []corev1.Node{sharedNode("gpu")}})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.Apply(t, gpuOperator)
	return c
}

// sharedNode returns a node with two devices, labeled and tainted as manifests/README.md says.
func sharedNode(name string) corev1.Node {
	node := framework.GPUNode(name, "NVIDIA-A100-SXM4-40GB", 2, 40960)
	node.Spec.Taints = []corev1.Taint{{Key: names.GPUSharingLabel, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return node
}

// sharing returns the values of helm test with which its pod asks for a share, and gets to a
// sharedNode.
func sharing() values {
	return values{
		"limits":      values{names.GPUMilliResource: "100"},
		"tolerations": []any{values{"key": names.GPUSharingLabel, "operator": "Exists", "effect": "NoSchedule"}},
	}
}

// servingPodGroups are the flags with which the API server has Kubernetes' own gangs.
func servingPodGroups() []string {
	gates := "GenericWorkload=true"
	if strings.HasSuffix(compat.PodGroups, "/v1alpha2") {
		gates += ",GangScheduling=true,WorkloadAwarePreemption=true" // Kubernetes 1.36
	}
	return []string{"--feature-gates=" + gates, "--runtime-config=" + compat.PodGroups + "=true"}
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

// served is the schedulerName of the profile that is installed.
func (r *release) served(t *testing.T) string {
	t.Helper()
	config, err := r.c.Client.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), r.name+"-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return load(t, config.Name, config.Data["profile.yaml"]).Names()[0]
}

// refused is helm for what is refused before anything changes.
func (r *release) refused(t *testing.T, verb, want string) {
	t.Helper()
	before := versions(t, r.c)
	_, err := r.h.run(t, verb, r.name, chartPath, "--namespace="+r.namespace, "--values="+r.values.file(t))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("helm %s: want it refused with %q, got %v", verb, want, err)
	}
	if diff := cmp.Diff(before, versions(t, r.c)); diff != "" {
		t.Errorf("helm %s was refused and changed (-before,+after):\n%s", verb, diff)
	}
}

// versions returns the generations of everything that a release can consist of.
func versions(t *testing.T, c *framework.Cluster) map[string]string {
	t.Helper()
	output := c.Kubectl(t, "get", "deployments,configmaps,serviceaccounts,secrets,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,networkpolicies,priorityclasses,"+
		"validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings", "--all-namespaces",
		`--output=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid}{.metadata.generation}{"\n"}{end}`)
	all := map[string]string{}
	for line := range strings.Lines(output) {
		object, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, version, _ := strings.Cut(version, " ")
		all[object+" "+name] = version
	}
	return all
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
		want := "gpu"
		if gpu, ok := r.values["gpu"].(map[string]any); ok {
			want += "-" + gpu["pool"].(string)
		}
		if devices := pod.Annotations[names.GPUDevicesAnnotationPrefix+"main"]; pod.Spec.NodeName != want || devices == "" {
			t.Errorf("the pod of helm test is on %s with device %q, want a device of node %s", pod.Spec.NodeName, devices, want)
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
	args := slices.Concat(deployment.Spec.Template.Spec.Containers[0].Args, []string{"--kubeconfig=" + r.c.ServiceAccountKubeconfig(t, r.namespace, name), "--bind-address="})
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
	allowed := map[string]bool{"Lease " + r.namespace + "/" + r.name: true}
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
		v["test"] = sharing()
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
		if was := r.served(t); was != r.profile() {
			r.refused(t, "upgrade", fmt.Sprintf("profile: this upgrade changes the schedulerName from %q to %q", was, r.profile()))
			r.values["profile"] = r.profile()
		}
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
