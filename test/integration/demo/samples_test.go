// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

type sampleCheck struct {
	file          string
	before, check func(*testing.T, *keptCluster)
}

// samples are the files of manifests/samples that a person applies, in this order,
// each with what shows that its feature worked on the demo's cluster. The patches
// of nodes are applied by the samples that need them.
var samples = []sampleCheck{
	{file: "hello.yaml", check: func(t *testing.T, c *keptCluster) {
		c.kubectl(t, "wait", "deployment/hello", "--for=condition=Available", "--timeout=60s")
	}},
	{file: "gpu-half.yaml", check: func(t *testing.T, c *keptCluster) {
		c.checkShares(t, c.placed(t, "default", "gpu-half"), 1, ":500m:")
	}},
	{file: "gpu-memory.yaml", check: func(t *testing.T, c *keptCluster) {
		c.checkShares(t, c.placed(t, "default", "gpu-memory"), 1, ":10240Mi\n")
	}},
	{file: "gpu-model.yaml", check: func(t *testing.T, c *keptCluster) {
		pod := c.placed(t, "default", "gpu-model")
		c.checkShares(t, pod, 1, ":250m:")
		if !strings.HasPrefix(pod.Spec.NodeName, "a100-") {
			t.Errorf("the pod is on %s, which has no A100", pod.Spec.NodeName)
		}
	}},
	{file: "gpu-whole.yaml", check: func(t *testing.T, c *keptCluster) {
		c.checkShares(t, c.placed(t, "default", "gpu-whole"), 2, ":1000m:")
	}},
	{file: "gang.yaml", check: func(t *testing.T, c *keptCluster) {
		c.kubectl(t, "wait", "job/gang", "--for=condition=Complete", "--timeout=60s")
		pods := c.pods(t, "default", "job-name=gang")
		if len(pods) != 8 {
			t.Fatalf("the gang has %d pods, want 8", len(pods))
		}
		for i := range pods {
			c.checkShares(t, &pods[i], 1, ":500m:")
		}
	}},
	{file: "colocation.yaml", check: func(t *testing.T, c *keptCluster) {
		// A pod that came before there was a backend in its zone had nothing to be near to.
		c.kubectl(t, "rollout", "status", "deployment/backend", "--timeout=60s")
		c.kubectl(t, "scale", "deployment/frontend", "--replicas=0")
		c.kubectl(t, "wait", "pods", "--selector=app=frontend", "--for=delete", "--timeout=60s")
		c.kubectl(t, "scale", "deployment/frontend", "--replicas=3")
		c.kubectl(t, "rollout", "status", "deployment/frontend", "--timeout=60s")
		var nodes []string
		for _, pod := range c.pods(t, "default", "app=backend") {
			nodes = append(nodes, pod.Spec.NodeName)
		}
		for _, pod := range c.pods(t, "default", "app=frontend") {
			if !slices.Contains(nodes, pod.Spec.NodeName) {
				t.Errorf("%s is on %s, and the backend's pods are on %q", pod.Name, pod.Spec.NodeName, nodes)
			}
		}
	}},
	{file: "gpu-selectable.yaml", before: func(t *testing.T, c *keptCluster) {
		c.kubectl(t, "cordon", "a2", "b2", "c2") // the nodes with both labels
	}, check: func(t *testing.T, c *keptCluster) {
		c.kubectl(t, "wait", "pod/gpu-selectable", "-n=research", "--for=condition=PodScheduled=False", "--timeout=60s")
		why := c.kubectl(t, "get", "pod/gpu-selectable", "-n=research", `-o=jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
		if !strings.Contains(why, `"selectable"`) {
			t.Errorf("the pod waits, and its condition does not name the label: %s", why)
		}
		c.kubectl(t, "patch", "node", "b3", "--patch-file", sample("selectable-node-patch.yaml"))
		if node := c.placed(t, "research", "gpu-selectable").Spec.NodeName; node != "b3" {
			t.Errorf("the pod is on %s, want b3, which has both labels now", node)
		}
		c.kubectl(t, "uncordon", "a2", "b2", "c2")
	}},
	{file: "tenant.yaml", check: func(t *testing.T, c *keptCluster) {
		// Confined: without a node of the tenant's own its pods run nowhere.
		c.kubectl(t, "wait", "deployment/web", "-n=tenant-a", "--for=jsonpath={.status.replicas}=2", "--timeout=60s")
		c.kubectl(t, "wait", "pods", "-n=tenant-a", "--all", "--for=condition=PodScheduled=False", "--timeout=60s")
		c.kubectl(t, "patch", "node", "a3", "--patch-file", sample("tenant-node-patch.yaml"))
		c.kubectl(t, "wait", "deployment/web", "-n=tenant-a", "--for=condition=Available", "--timeout=60s")
		for _, pod := range c.pods(t, "tenant-a", "app=web") {
			if pod.Spec.NodeName != "a3" {
				t.Errorf("%s is on %s, want the tenant's node a3", pod.Name, pod.Spec.NodeName)
			}
		}
	}},
}

// testSamples applies every sample to a demo that goes on running, and checks that
// it shows its feature there.
func testSamples(t *testing.T, kubeconfig string) {
	files, err := filepath.Glob(sample("*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		known := slices.ContainsFunc(samples, func(s sampleCheck) bool { return s.file == filepath.Base(file) })
		if !known && !strings.HasSuffix(file, "-node-patch.yaml") {
			t.Errorf("%s is not checked here", file)
		}
	}
	c := &keptCluster{kubeconfig: kubeconfig}
	for _, s := range samples {
		t.Run(s.file, func(t *testing.T) {
			if s.before != nil {
				s.before(t, c)
			}
			c.kubectl(t, "apply", "--validate=strict", "-f", sample(s.file))
			s.check(t, c)
		})
	}
}

// sample returns the path of a sample for this minor release of Kubernetes.
func sample(name string) string {
	if name == "gang.yaml" && compat.Release == "1.36" {
		return filepath.Join(framework.Root(), "manifests", "components", "gangscheduling-1.36", "sample.yaml")
	}
	return filepath.Join(framework.Root(), "manifests", "samples", name)
}

// keptCluster is a demo that goes on running.
type keptCluster struct{ kubeconfig string }

func (c *keptCluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return framework.Kubectl(t, c.kubeconfig, args...)
}

// placed waits until a pod is running and returns it.
func (c *keptCluster) placed(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	c.kubectl(t, "wait", "pod/"+name, "-n="+namespace, "--for=condition=Ready", "--timeout=60s")
	pod := &corev1.Pod{}
	c.get(t, pod, "pod", name, "-n="+namespace)
	return pod
}

func (c *keptCluster) pods(t *testing.T, namespace, selector string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	c.get(t, list, "pods", "-n="+namespace, "-l="+selector)
	if len(list.Items) == 0 {
		t.Fatalf("no pods %s in namespace %s", selector, namespace)
	}
	return list.Items
}

func (c *keptCluster) get(t *testing.T, into any, args ...string) {
	t.Helper()
	output := c.kubectl(t, append([]string{"get", "-o=json"}, args...)...)
	if err := json.Unmarshal([]byte(output), into); err != nil {
		t.Fatalf("kubectl get %q: %v", args, err)
	}
}

// checkShares checks that the container "main" of a pod was given so many devices,
// and of each the share that the record writes like this, and that it sees those alone.
func (c *keptCluster) checkShares(t *testing.T, pod *corev1.Pod, devices int, share string) {
	t.Helper()
	record := pod.Annotations[names.GPUAssignedAnnotation]
	if !strings.Contains(record+"\n", share) {
		t.Errorf("%s was given %q, want %q of each device", pod.Name, record, share)
	}
	main := names.GPUDevicesAnnotationPrefix + "main"
	if got := strings.Split(pod.Annotations[main], ","); len(got) != devices {
		t.Errorf("%s: annotation %s names the devices %q, want %d", pod.Name, main, got, devices)
	}
	visible := slices.IndexFunc(pod.Spec.Containers[0].Env, func(env corev1.EnvVar) bool {
		return env.Name == "NVIDIA_VISIBLE_DEVICES" && env.ValueFrom != nil && env.ValueFrom.FieldRef != nil &&
			env.ValueFrom.FieldRef.FieldPath == "metadata.annotations['"+main+"']"
	})
	if visible < 0 {
		t.Errorf("%s: its container does not read its devices: %+v", pod.Name, pod.Spec.Containers[0].Env)
	}
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName != "nvidia" {
		t.Errorf("%s has no runtimeClassName nvidia", pod.Name)
	}
}
