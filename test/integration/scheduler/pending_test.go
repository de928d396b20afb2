// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	pendingProfiles = "test/integration/scheduler/testdata/pending.yaml"
	tenancyProfile  = "config/berth-scheduler/tenancy.yaml"

	gpuProfile    = "berth-gpu"
	plainProfile  = "berth-plain"
	labelsProfile = "berth-labels"

	// glance is how much of a message somebody reads before looking elsewhere.
	glance = 160
)

// TestPendingPods has pods wait for the reasons for which developers' pods wait,
// and reads the newest Warning event of each as their owner would: its beginning
// says what to change, and nothing is said of preemption where it cannot help.
func TestPendingPods(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{
		framework.Node("plain-a", nil), framework.Node("plain-b", nil),
		tainted(framework.Node("control-plane", map[string]string{"role": "control-plane"}),
			corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}),
		tainted(framework.GPUNode("gpu", "NVIDIA-A100-SXM4-80GB", 2, 81920),
			corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}),
	}})
	c.ApplyManifests(t, "manifests/base")
	for _, file := range []string{"podgroups.yaml", "rbac.yaml"} {
		c.Kubectl(t, "apply", "-f", filepath.Join(framework.Root(), "manifests/components/gang", file))
	}
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/podgroups.scheduling.x-k8s.io")
	c.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {`+names.TenantLabel+`: a}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: training, namespace: default}
spec: {minMember: 3}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: half, namespace: default}
spec: {minMember: 3}
`)
	profiles := filepath.Join(framework.Root(), pendingProfiles)
	if compat.Release != "1.36" {
		profiles = withoutCoscheduling(t, profiles)
	}
	c.StartBerthScheduler(t, profiles, framework.SchedulerOptions{})
	c.StartBerthScheduler(t, tenancyProfile, framework.SchedulerOptions{LeaderElect: true})

	tolerates := []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	share := func(name string, annotations map[string]string, tolerations ...corev1.Toleration) *corev1.Pod {
		p := framework.Pod(metav1.NamespaceDefault, name, gpuProfile)
		p.Annotations = annotations
		p.Spec.Tolerations = tolerations
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("500")}
		return p
	}
	member := func(name, group string) *corev1.Pod {
		p := framework.Pod(metav1.NamespaceDefault, name, gpuProfile)
		p.Labels = map[string]string{v1alpha1.PodGroupLabel: group}
		// A plain node has room for one of them.
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
		return p
	}

	wrongMilli := share("wrong-milli", nil, tolerates...)
	wrongMilli.Spec.Containers[0].Resources.Limits[names.GPUMilliResource] = resource.MustParse("1500")
	avoided := framework.Pod(metav1.NamespaceDefault, "tainted", plainProfile)
	avoided.Spec.NodeSelector = map[string]string{"role": "control-plane"}
	uncounted := share("uncounted", nil, tolerates...)
	uncounted.Spec.SchedulerName = plainProfile
	tenant := framework.Pod(metav1.NamespaceDefault, "of-a-tenant", schedulerNameOf(t, tenancyProfile))
	tenant.Namespace = "team-a"

	type testCase struct {
		name string
		pods []*corev1.Pod
		// want is what the beginning of every pod's message contains.
		want []string
		// once is what the message of one of them contains.
		once string
		// preemption says that the pods may be told of preemption.
		preemption bool
	}
	tests := []testCase{
		{
			name: "a quantity that means nothing",
			pods: []*corev1.Pod{wrongMilli},
			want: []string{"can never be scheduled", names.GPUMilliResource},
		},
		{
			name: "a rule about labels",
			pods: []*corev1.Pod{framework.Pod(metav1.NamespaceDefault, "ruled-out", labelsProfile)},
			want: []string{`"selectable"`, "rules[0]"},
		},
		{
			name: "no node of the tenant",
			pods: []*corev1.Pod{tenant},
			want: []string{names.TenantNodeLabel},
		},
		{
			name: "a model pattern without *",
			pods: []*corev1.Pod{share("model", map[string]string{names.GPUModelAnnotation: "A100"}, tolerates...)},
			want: []string{names.GPUModelAnnotation, "nvidia-a100-sxm4-80gb"},
		},
		{
			name: "a taint",
			pods: []*corev1.Pod{avoided},
			want: []string{"taint node-role.kubernetes.io/control-plane:NoSchedule"},
		},
		{
			name: "a forgotten toleration of the nodes with devices",
			pods: []*corev1.Pod{share("intolerant", nil)},
			want: []string{"spec.tolerations", "taint nvidia.com/gpu=present:NoSchedule"},
		},
		{
			name: "a misspelled schedulerName",
			pods: []*corev1.Pod{framework.Pod(metav1.NamespaceDefault, "misspelled", "berth-gppu")},
			want: []string{"spec.schedulerName", `"berth-gppu"`, `"` + gpuProfile + `"`},
		},
		{
			name: "a share under a profile that counts none",
			pods: []*corev1.Pod{uncounted},
			want: []string{names.GPUMilliResource, `"` + plainProfile + `"`, "GPUDevice", `"` + gpuProfile + `"`},
		},
		{
			name:       "a gang without room for all",
			pods:       []*corev1.Pod{member("training-0", "training"), member("training-1", "training"), member("training-2", "training")},
			want:       []string{"gang default/training", " of its 3 members had a node"},
			once:       " 2 of its 3 members had a node",
			preemption: true,
		},
		{
			name: "a gang that is not complete",
			pods: []*corev1.Pod{member("half-0", "half")},
			want: []string{"gang default/half", "1 of its 3 members exist"},
		},
		{
			name: "a gang that does not exist",
			pods: []*corev1.Pod{member("lost", "trainning")},
			want: []string{"PodGroup default/trainning", v1alpha1.PodGroupLabel},
		},
	}
	if compat.Release != "1.36" {
		tests = slices.DeleteFunc(tests, func(tt testCase) bool { return strings.HasPrefix(tt.name, "a gang ") })
	}
	// All at once: each waits for a reason of its own, and together they wait less.
	for _, tt := range tests {
		for _, p := range tt.pods {
			c.CreatePod(t, p)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []string
			for _, p := range tt.pods {
				message := warning(t, c, p, tt.want)
				all = append(all, message)
				t.Logf("%s: %s", p.Name, message)
				for _, noise := range []string{"no new claims to deallocate", "can not find pod group", "optimistic rejection", "reemption"} {
					if strings.Contains(message, noise) && (!tt.preemption || noise != "reemption") {
						t.Errorf("%s: what is not for its owner, %q, in\n%s", p.Name, noise, message)
					}
				}
			}
			if !strings.Contains(strings.Join(all, "\n"), tt.once) {
				t.Errorf("want %q in one of\n%s", tt.once, strings.Join(all, "\n"))
			}
		})
	}
}

// withoutCoscheduling writes a copy of a configuration without Coscheduling, which is built
// for Kubernetes 1.36 alone, and returns its path.
func withoutCoscheduling(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(content), "      - name: Coscheduling\n", "")
	text = strings.ReplaceAll(text, "      disabled:\n      - name: PrioritySort\n", "")
	if strings.Contains(text, "Coscheduling") {
		t.Fatalf("%s: Coscheduling is left", file)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// warning waits until the newest Warning event on the pod begins with a text that
// contains all of want, and returns its note.
func warning(t *testing.T, c *framework.Cluster, p *corev1.Pod, want []string) string {
	t.Helper()
	var note string
	framework.WaitForCondition(t, framework.WaitTimeout, "a Warning event on pod "+p.Name, func() (bool, error) {
		events, err := c.Client.EventsV1().Events(p.Namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "type=" + corev1.EventTypeWarning + ",regarding.name=" + p.Name,
		})
		if err != nil || len(events.Items) == 0 {
			return false, err
		}
		note = slices.MaxFunc(events.Items, func(a, b eventsv1.Event) int {
			return a.EventTime.Compare(b.EventTime.Time)
		}).Note
		for _, part := range want {
			if !strings.Contains(strings.ToLower(note[:min(len(note), glance)]), strings.ToLower(part)) {
				return false, fmt.Errorf("want %q in the beginning of %q", part, note)
			}
		}
		return true, nil
	})
	return note
}

func tainted(node corev1.Node, taint corev1.Taint) corev1.Node {
	node.Spec.Taints = []corev1.Taint{taint}
	return node
}

// schedulerNameOf returns the name of the first profile of a configuration.
func schedulerNameOf(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(framework.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	return config.Profiles[0].SchedulerName
}
