// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// environments returns the variables of each container of the pod.
func environments(pod *corev1.Pod) map[string][]corev1.EnvVar {
	got := map[string][]corev1.EnvVar{}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		got[container.Name] = container.Env
	}
	for _, container := range pod.Spec.EphemeralContainers {
		got[container.Name] = container.Env
	}
	return got
}

// testInjection creates pods, without storing them, and looks at what each
// container's environment became.
func testInjection(t *testing.T, c *framework.Cluster) {
	a := corev1.EnvVar{Name: "A", Value: "$(" + visibleDevices + ")"}
	void := []corev1.EnvVar{value("void")}
	tests := []struct {
		name             string
		namespace        string // default: team
		arm              func(*corev1.Pod)
		want             map[string][]corev1.EnvVar
		wantRuntimeClass string
	}{
		{
			name: "every kind of container, with and without a share",
			arm: func(pod *corev1.Pod) {
				pod.Spec.InitContainers = []corev1.Container{
					{Name: "init", Image: "x", Resources: limits(names.GPUMilliResource, "1000")},
					{Name: "sidecar", Image: "x", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: limits(names.GPUMemoryResource, "1Gi")},
					{Name: "init-without", Image: "x", Env: []corev1.EnvVar{a, a}},
				}
				pod.Spec.Containers = []corev1.Container{
					{Name: "main", Image: "x", Env: []corev1.EnvVar{a}, Resources: limits(names.GPUMilliResource, "500", names.GPUMemoryResource, "1Gi")},
					{Name: "without", Image: "x"},
				}
			},
			want: map[string][]corev1.EnvVar{
				"init":         {own("init")},
				"sidecar":      {own("sidecar")},
				"init-without": {value("void"), a, a},
				"main":         {own("main"), a},
				"without":      void,
			},
			wantRuntimeClass: "nvidia",
		},
		{
			name: "a RuntimeClass of the author's own",
			arm: func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources = limits(names.GPUMemoryResource, "1Gi")
				pod.Spec.RuntimeClassName = ptr.To("other")
			},
			want:             map[string][]corev1.EnvVar{"main": {own("main")}},
			wantRuntimeClass: "other",
		},
		{
			name:             "the variable where the author put it",
			arm:              all(asks(names.GPUMilliResource, "1"), env(a, own("main"))),
			want:             map[string][]corev1.EnvVar{"main": {a, own("main")}},
			wantRuntimeClass: "nvidia",
		},
		{
			name:             "a share in an exempt namespace",
			namespace:        metav1.NamespaceSystem,
			arm:              asks(names.GPUMilliResource, "1"),
			want:             map[string][]corev1.EnvVar{"main": {own("main")}},
			wantRuntimeClass: "nvidia",
		},
		{name: "no share, and nothing that leads to a shared node", arm: func(*corev1.Pod) {}, want: map[string][]corev1.EnvVar{"main": nil}},
		{name: "no share, and the taint of shared nodes tolerated", arm: tolerates(toleration), want: map[string][]corev1.EnvVar{"main": void}},
		{name: "no share, and every taint tolerated", arm: tolerateAll, want: map[string][]corev1.EnvVar{"main": void}},
		{name: "no share, and the node named", arm: nodeNamed, want: map[string][]corev1.EnvVar{"main": void}},
		{
			name: "no share, and other taints tolerated",
			arm:  tolerates(corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}),
			want: map[string][]corev1.EnvVar{"main": nil},
		},
		{
			// The node may have its taint with that effect.
			name: "no share, and every taint with effect NoExecute tolerated",
			arm:  tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}),
			want: map[string][]corev1.EnvVar{"main": void},
		},
		{
			name:      "no share, and every taint tolerated, in an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm:       tolerateAll,
			want:      map[string][]corev1.EnvVar{"main": nil},
		},
		{
			name: "a device of the device plugin, which sets the variable",
			arm:  all(tolerateAll, asks(pluginResource, "1")),
			want: map[string][]corev1.EnvVar{"main": nil},
		},
		{
			name: "a MIG device, of which the device plugin sets the variable",
			arm:  all(tolerateAll, asks("nvidia.com/mig-1g.5gb", "1")),
			want: map[string][]corev1.EnvVar{"main": nil},
		},
		{
			name: "a slice of a device's time, of which the device plugin sets the variable",
			arm:  all(tolerateAll, asks("nvidia.com/gpu.shared", "1")),
			want: map[string][]corev1.EnvVar{"main": nil},
		},
		{
			name: "a resource of NVIDIA's that is no device, and the node named",
			arm:  all(nodeNamed, asks("nvidia.com/anything", "1")),
			want: map[string][]corev1.EnvVar{"main": void},
		},
		{
			name: "a resource of NVIDIA's that is no device, and every taint tolerated",
			arm:  all(tolerateAll, asks("nvidia.com/rdma_shared_device_a", "1")),
			want: map[string][]corev1.EnvVar{"main": void},
		},
		{
			name: "zero of a share, and the taint of shared nodes tolerated",
			arm:  all(tolerates(toleration), asks(names.GPUMilliResource, "0", names.GPUMemoryResource, "0")),
			want: map[string][]corev1.EnvVar{"main": void},
		},
		{
			name: "zero of a share, and nothing that leads to a shared node",
			arm:  asks(names.GPUMilliResource, "0"),
			want: map[string][]corev1.EnvVar{"main": nil},
		},
		{
			name:             "memory, and zero thousandths",
			arm:              asks(names.GPUMilliResource, "0", names.GPUMemoryResource, "1Gi"),
			want:             map[string][]corev1.EnvVar{"main": {own("main")}},
			wantRuntimeClass: "nvidia",
		},
		{name: "no device of the device plugin", arm: all(tolerateAll, asks(pluginResource, "0")), want: map[string][]corev1.EnvVar{"main": void}},
	}
	c.Apply(t, "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: other}, handler: other}")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.namespace == "" {
				tt.namespace = "team"
			}
			pod := newPod(tt.namespace, "p")
			tt.arm(pod)
			got := createDry(t, c, pod)
			if diff := cmp.Diff(tt.want, environments(got)); diff != "" {
				t.Errorf("Unexpected environment (-want,+got):\n%s", diff)
			}
			if class := ptr.Deref(got.Spec.RuntimeClassName, ""); class != tt.wantRuntimeClass {
				t.Errorf("RuntimeClass %q, want %q", class, tt.wantRuntimeClass)
			}
			// The RuntimeClass has its say, as if the author had named it.
			if tt.wantRuntimeClass == "nvidia" && got.Spec.NodeSelector[names.GPUSharingLabel] != "true" {
				t.Errorf("node selector %v lacks that of the RuntimeClass", got.Spec.NodeSelector)
			}

			// What came out goes in again unchanged, as an export that is applied does.
			again := pod.DeepCopy()
			again.Spec = *got.Spec.DeepCopy()
			second := createDry(t, c, again)
			if diff := cmp.Diff(got.Spec, second.Spec); diff != "" {
				t.Errorf("Unexpected change the second time (-first,+second):\n%s", diff)
			}
		})
	}
}

// testCost counts how often the API server has written and read a pod for the mutation,
// which is what it costs: nothing where nothing is to be set, however large the pod, and
// once where something is.
func testCost(t *testing.T, c *framework.Cluster) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		want int
	}{
		{"nothing to set", newPod("team", "p"), 0},
		{"nothing to set, in 600 kB", newPod("team", "p"), 0},
		{"nothing to set, in 2000 containers", newPod("team", "p"), 0},
		{"a share", sharePod("team", "p", "500"), 1},
		{"the taint tolerated", newPod("team", "p"), 1},
		{"the taint tolerated, and the variable set", newPod("team", "p"), 0},
	}
	tests[1].pod.Spec.Containers[0].Args = []string{strings.Repeat("x", 600_000)}
	containers(2000, "")(tests[2].pod)
	for _, tt := range tests[4:] {
		tt.pod.Spec.Tolerations = []corev1.Toleration{toleration}
	}
	tests[5].pod.Spec.Containers[0].Env = []corev1.EnvVar{value("void")}
	before := mutationCount(t, c)
	for _, tt := range tests {
		createDry(t, c, tt.pod)
		after := mutationCount(t, c)
		if got := after - before; got != tt.want {
			t.Errorf("%s: the API server worked through the pod %d times, want %d", tt.name, got, tt.want)
		}
		before = after
	}
}

var mutations = regexp.MustCompile(`(?m)^apiserver_mutating_admission_policy_check_total\{.*policy="berth-gpu-devices".*\} (\d+)$`)

// mutationCount returns how many mutations the API server has evaluated.
func mutationCount(t *testing.T, c *framework.Cluster) int {
	t.Helper()
	content, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	found := mutations.FindAllSubmatch(content, -1)
	for _, match := range found {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if len(found) == 0 {
		t.Fatal("the API server has no such metric")
	}
	return total
}

// createDry creates the pod, without storing it.
func createDry(t *testing.T, c *framework.Cluster, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	got, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// testDebugContainers adds them to a pod, one by one.
func testDebugContainers(t *testing.T, c *framework.Cluster) {
	c.CreatePod(t, sharePod("team", "debugged", "500"))
	c.CreatePod(t, newPod("team", "plain"))
	// The second shows that the first is left as it is.
	var pod *corev1.Pod
	for _, container := range []string{"first", "second"} {
		var err error
		if pod, err = debug(t, c, "debugged", container); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]corev1.EnvVar{"main": {own("main")}, "first": {value("void")}, "second": {value("void")}}
	if diff := cmp.Diff(want, environments(pod)); diff != "" {
		t.Errorf("Unexpected environment (-want,+got):\n%s", diff)
	}
	// Nor is one from before the policies, which nobody could change.
	early, err := debug(t, c, "early", "new")
	if err != nil {
		t.Fatal(err)
	}
	want = map[string][]corev1.EnvVar{"main": nil, "old": nil, "new": {value("void")}}
	if diff := cmp.Diff(want, environments(early)); diff != "" {
		t.Errorf("Unexpected environment of an early pod (-want,+got):\n%s", diff)
	}

	// An update that has no debug container for one that has none changes nothing.
	untouched, err := c.Client.CoreV1().Pods("team").Get(t.Context(), "untouched", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	untouched.ResourceVersion = ""
	if _, err = c.Client.CoreV1().Pods("team").UpdateEphemeralContainers(t.Context(), "untouched", untouched, metav1.UpdateOptions{}); err != nil {
		t.Errorf("an update without debug containers: %v", err)
	}

	_, err = debug(t, c, "debugged", "third", value("all"))
	framework.CheckDenied(t, err, []string{"berth-gpu-devices", "container(s) third"})
	_, err = debug(t, c, "debugged", "third", own("main"))
	framework.CheckDenied(t, err, []string{"container(s) third", `must be "void"`})
	_, err = debug(t, c, "plain", "third", value("all"))
	framework.CheckDenied(t, err, nil)

	// A pod that named its node is on it without a toleration, and once it is there it
	// looks like any other that runs: its debug containers get nothing either.
	named := newPod("team", "named")
	named.Spec.NodeName = "gpu"
	c.CreatePod(t, named)
	_, err = debug(t, c, "named", "first", value("all"))
	framework.CheckDenied(t, err, []string{"container(s) first", `must be "void"`})
	if pod, err = debug(t, c, "named", "second"); err != nil {
		t.Fatal(err)
	}
	want = map[string][]corev1.EnvVar{"main": {value("void")}, "second": {value("void")}}
	if diff := cmp.Diff(want, environments(pod)); diff != "" {
		t.Errorf("Unexpected environment of a pod that named its node (-want,+got):\n%s", diff)
	}
	plugin := newPod("team", "plugin")
	plugin.Spec.Containers[0].Resources = limits(pluginResource, "1")
	bind(t, c.Client, c.CreatePod(t, plugin), nil)
	_, err = debug(t, c, "plugin", "first", value("all"))
	framework.CheckDenied(t, err, nil)
}

// debug adds a debug container to a pod.
func debug(t *testing.T, c *framework.Cluster, name, container string, env ...corev1.EnvVar) (*corev1.Pod, error) {
	t.Helper()
	pod, err := c.Client.CoreV1().Pods("team").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Whatever the node has made of its status meanwhile.
	pod.ResourceVersion = ""
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: container, Image: "x", Env: env, ImagePullPolicy: corev1.PullAlways,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		},
	})
	return c.Client.CoreV1().Pods("team").UpdateEphemeralContainers(t.Context(), name, pod, metav1.UpdateOptions{})
}

// testWithoutMutation: what the mutation would have set is not forgotten either
// when it is off, or when something undoes it later.
func testWithoutMutation(t *testing.T, c *framework.Cluster) {
	c.Kubectl(t, "delete", "mutatingadmissionpolicybinding", "berth-gpu-devices")
	create := func(pod *corev1.Pod) error {
		_, err := c.Client.CoreV1().Pods("team").Create(t.Context(), pod, dryRun)
		return err
	}
	framework.WaitForCondition(t, framework.WaitTimeout, "the mutation to be off", func() (bool, error) {
		err := create(sharePod("team", "p", "500"))
		return apierrors.IsForbidden(err), err
	})
	framework.CheckDenied(t, create(sharePod("team", "p", "500")), []string{"berth-gpu-devices", "container(s) main"})

	pod := sharePod("team", "p", "500")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{own("main")}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "x"}}
	framework.CheckDenied(t, create(pod), []string{"container(s) init", `must be "void"`})
	pod.Spec.InitContainers[0].Env = []corev1.EnvVar{value("void")}
	framework.CheckDenied(t, create(pod), nil)
}

// testSamples applies the samples, without storing them: the policies let them in.
func testSamples(t *testing.T, c *framework.Cluster) {
	files, err := filepath.Glob(install.Path("manifests/samples/gpu-*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	// One of them brings its namespace, which a dry run does not store.
	c.CreateNamespace(t, "research", nil)
	for _, file := range files {
		c.Kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-f", file)
	}
}
