// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labelpresence shows what the plugin of that name does to pods on a
// real API server, in a berth-scheduler process with the shipped roles.
package labelpresence

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// shared is the control plane of [TestLabelPresence].
var shared *framework.Shared

// TestLabelPresence runs every test of this package on one control plane, on which Berth
// is installed.
func TestLabelPresence(t *testing.T) {
	shared = framework.NewShared(t, framework.Options{}, func(c *framework.Cluster) { c.ApplyManifests(t, "manifests/base") })
	t.Run("the policy of old", policyOfOld)
	t.Run("scopes of rules", ruleScopes)
	t.Run("preferences", preferences)
	t.Run("DaemonSets", daemonSets)
}

// policyOfOld is the example of the removed labelsPresence predicate: with
// the rule "selectable present", a pod with nodeSelector device=gpu lands only
// on a node that carries both labels.
func policyOfOld(t *testing.T) {
	c := shared.Use(t, []corev1.Node{
		framework.Node("gpu", map[string]string{"device": "gpu"}),
		framework.Node("selectable", map[string]string{"selectable": ""}),
	})
	c.StartBerthScheduler(t, "config/berth-scheduler/labelpresence.yaml", framework.SchedulerOptions{})

	c.CreatePod(t, pod("waiting", map[string]string{"device": "gpu"}))
	waiting := c.WaitForPodUnschedulable(t, "default", "waiting")
	message := framework.PodScheduledCondition(waiting).Message
	for _, want := range []string{`"selectable"`, "rules[0]", "0/2 nodes are available"} {
		if !strings.Contains(message, want) {
			t.Errorf("the condition's message does not contain %q: %s", want, message)
		}
	}
	c.WaitForEvent(t, "default", "waiting", "FailedScheduling", `"selectable"`)

	// The label wakes the pod: the wait ends long before the five minutes after
	// which the queue is flushed anyway.
	c.Kubectl(t, "label", "node", "gpu", "selectable=")
	if woken := c.WaitForPodScheduled(t, "default", "waiting"); woken.Spec.NodeName != "gpu" {
		t.Errorf("the pod went to %s", woken.Spec.NodeName)
	}
	c.Kubectl(t, "label", "node", "gpu", "selectable-")
	// The scheduler's watch of pods may be ahead of that of nodes: it has seen the
	// label go when it refuses again.
	waitUntilRefused(t, c, pod("probe", map[string]string{"device": "gpu"}))

	both := framework.Node("both", map[string]string{"device": "gpu", "selectable": "any-value"})
	c.CreateNode(t, both)
	for i := range 10 {
		name := fmt.Sprintf("chooses-%d", i)
		c.CreatePod(t, pod(name, map[string]string{"device": "gpu"}))
		if got := c.WaitForPodScheduled(t, "default", name).Spec.NodeName; got != "both" {
			t.Errorf("%s went to %s", name, got)
		}
	}
}

// ruleScopes has one profile with an absence rule for all, a presence rule
// for the namespaces of a team, and one for labeled pods.
func ruleScopes(t *testing.T) {
	c := shared.Use(t, []corev1.Node{
		framework.Node("plain", nil),
		framework.Node("broken", map[string]string{"maintenance": ""}),
	})
	scheduler := c.StartBerthScheduler(t, profile(t, `
      rules:
      - labels: [maintenance]
        presence: false
      - labels: [research]
        presence: true
        namespaceSelector: {matchLabels: {team: research}}
      - labels: [fast]
        presence: true
        podSelector: {matchLabels: {speed: fast}}
`), framework.SchedulerOptions{})
	c.CreateNamespace(t, "lab", map[string]string{"team": "research"})

	c.CreatePod(t, pod("free", nil))
	if got := c.WaitForPodScheduled(t, "default", "free").Spec.NodeName; got != "plain" {
		t.Errorf("a pod outside all scopes went to %s", got)
	}

	scoped := pod("scoped", nil)
	scoped.Labels = map[string]string{"speed": "fast"}
	c.CreatePod(t, scoped)
	expectReason(t, c, "default", "scoped", `node(s) didn't have label "fast"`)
	// Relabelling the pod itself is one way out.
	c.Kubectl(t, "label", "pod", "scoped", "speed-")
	c.WaitForPodScheduled(t, "default", "scoped")

	if !strings.Contains(scheduler.Metrics(t), `berth_labelpresence_node_rejections_total{profile="berth-scheduler",rule="rules[2]"}`) {
		t.Error("the rejections of rules[2] are not in the metrics")
	}

	// A namespace's label comes and goes, and the pod must not sleep through it once.
	times := 5
	if framework.Long() {
		times = 20
	}
	for i := range times {
		name := fmt.Sprintf("lab-%d", i)
		in := pod(name, nil)
		in.Namespace = "lab"
		c.CreatePod(t, in)
		expectReason(t, c, "lab", name, `node(s) didn't have label "research"`)
		c.Kubectl(t, "label", "namespace", "lab", "team-")
		c.WaitForPodScheduled(t, "lab", name)
		c.Kubectl(t, "label", "namespace", "lab", "team=research")
		// The scheduler has seen the label when it refuses again.
		refused := pod(name+"-refused", nil)
		refused.Namespace = "lab"
		waitUntilRefused(t, c, refused)
	}
}

// preferences fills the preferred nodes first, and still uses the others.
func preferences(t *testing.T) {
	c := shared.Use(t, []corev1.Node{
		framework.Node("slow", nil),
		framework.Node("fast", map[string]string{"disk": "ssd"}),
		framework.Node("fast-but-spare", map[string]string{"disk": "ssd", "spare": ""}),
	})
	// The weight of the plugin lifts it above the default scores, which sum to 12
	// and would spread the pods.
	c.StartBerthScheduler(t, profile(t, `
      preferences:
      - {label: disk, presence: true, weight: 2}
      - {label: spare, presence: false, weight: 1}
`, "\n    score: {disabled: [{name: LabelPresence}], enabled: [{name: LabelPresence, weight: 100}]}"), framework.SchedulerOptions{})

	for i, want := range []string{"fast", "fast-but-spare", "slow"} {
		name := fmt.Sprintf("p%d", i)
		p := pod(name, nil)
		p.Spec.Containers[0].Resources.Requests = nodeSized()
		c.CreatePod(t, p)
		if got := c.WaitForPodScheduled(t, "default", name).Spec.NodeName; got != want {
			t.Errorf("pod %d went to %s, want %s", i, got, want)
		}
	}
}

// daemonSets has the real DaemonSet controller create pods for nodes that
// break the rule.
func daemonSets(t *testing.T) {
	const daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      schedulerName: berth-scheduler
      containers: [{name: c, image: registry.example.com/agent}]
`
	tests := []struct {
		policy      string
		wantRunning int
	}{
		{policy: "Exempt", wantRunning: 2},
		{policy: "Enforce", wantRunning: 1},
	}
	for _, tt := range tests {
		t.Run(tt.policy, func(t *testing.T) {
			c := shared.Use(t, []corev1.Node{
				framework.Node("selectable", map[string]string{"selectable": ""}),
				framework.Node("other", nil),
			})
			c.StartBerthScheduler(t, profile(t, `
      daemonSets: `+tt.policy+`
      rules: [{labels: [selectable], presence: true}]
`), framework.SchedulerOptions{})
			c.Apply(t, daemonSet)
			framework.WaitForCondition(t, framework.WaitTimeout, "both pods of the DaemonSet to be decided", func() (bool, error) {
				pods, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=agent"})
				if err != nil || len(pods.Items) != 2 {
					return false, err
				}
				bound := 0
				for i := range pods.Items {
					if !decided(&pods.Items[i]) {
						return false, nil
					}
					if pods.Items[i].Spec.NodeName != "" {
						bound++
					}
				}
				if bound != tt.wantRunning {
					t.Fatalf("%d pods have a node, want %d", bound, tt.wantRunning)
				}
				return true, nil
			})
		})
	}
}

// profile writes a configuration with LabelPresence under multiPoint and the
// given arguments, and returns its path. plugins is added below "plugins:".
func profile(t *testing.T, args string, plugins ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.yaml")
	content := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceNamespace: berth-system, resourceName: berth-scheduler}
profiles:
- schedulerName: berth-scheduler
  plugins:
    multiPoint: {enabled: [{name: LabelPresence}]}` + strings.Join(plugins, "") + `
  pluginConfig:
  - name: LabelPresence
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LabelPresenceArgs
` + args
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nodeSized are requests that leave no room for a second such pod on a node.
func nodeSized() corev1.ResourceList {
	cpu := localcluster.FakeNodes(1)[0].Status.Allocatable[corev1.ResourceCPU]
	return corev1.ResourceList{corev1.ResourceCPU: cpu}
}

func pod(name string, nodeSelector map[string]string) *corev1.Pod {
	p := framework.Pod(metav1.NamespaceDefault, name, names.Scheduler)
	p.Spec.NodeSelector = nodeSelector
	return p
}

// decided reports whether a scheduler has said yes or no to the pod.
func decided(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" || framework.PodScheduledCondition(pod) != nil
}

// waitUntilRefused creates the pod again and again until a scheduler says that no
// node may take it, and then deletes it.
func waitUntilRefused(t *testing.T, c *framework.Cluster, probe *corev1.Pod) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the rule to apply again", func() (bool, error) {
		c.CreatePod(t, probe)
		seen := c.WaitForPod(t, probe.Namespace, probe.Name, "decided", decided)
		c.Kubectl(t, "delete", "pod", "-n", probe.Namespace, probe.Name, "--wait=true")
		return seen.Spec.NodeName == "", nil
	})
}

func expectReason(t *testing.T, c *framework.Cluster, namespace, name, want string) {
	t.Helper()
	message := framework.PodScheduledCondition(c.WaitForPodUnschedulable(t, namespace, name)).Message
	if !strings.Contains(message, want) {
		t.Errorf("pod %s/%s: the message does not contain %q: %s", namespace, name, want, message)
	}
}
