// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

const (
	gangSize = 8
	// gangLabel names the PodGroup that a pod belongs to.
	gangLabel = "scheduling.x-k8s.io/pod-group"
	// permitSeconds is how long the first members of a gang wait here. It is longer
	// than the back-off of a pod that was refused once, so that such a pod is ready
	// to be tried when they give up, and before they are.
	permitSeconds = 4
)

// gang creates a PodGroup and returns its members, each with one whole device.
func gang(t *testing.T, c *framework.Cluster, name string) []*corev1.Pod {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, namespace: default}
spec: {minMember: %d, scheduleTimeoutSeconds: %d}
`, name, gangSize, permitSeconds))
	var pods []*corev1.Pod
	for i := range gangSize {
		pod := framework.SharePod(fmt.Sprintf("%s-%d", name, i), "1000")
		pod.Labels[gangLabel] = name
		pods = append(pods, pod)
	}
	return pods
}

// start installs the overlay on a cluster with a node of eight devices, and runs
// its profile with its roles.
func start(t *testing.T) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{gpuNode("gpu", gangSize)}})
	c.ApplyManifests(t, "manifests/overlays/gpu-gang")
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/podgroups.scheduling.x-k8s.io")
	// The policy gives it to every pod with a share; the GPU operator installs it.
	c.Apply(t, `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
`)
	c.StartBerthScheduler(t, gangProfile, framework.SchedulerOptions{})
	return c
}

// bound returns the names of those pods that have a node or a record of devices.
func bound(t *testing.T, c *framework.Cluster, pods []*corev1.Pod) []string {
	t.Helper()
	var found []string
	for _, pod := range pods {
		now := get(t, c, pod.Name)
		if _, recorded := now.Annotations[names.GPUAssignedAnnotation]; recorded || now.Spec.NodeName != "" {
			found = append(found, pod.Name)
		}
	}
	return found
}

// TestGangOfWholeDevices has a gang of eight whole devices get none of seven, give
// up the seven that wait for an eighth, and get all of eight.
func TestGangOfWholeDevices(t *testing.T) {
	if compat.Release != "1.36" {
		t.Skip("Coscheduling is built for Kubernetes 1.36 alone")
	}
	c := start(t)

	// A tenth of one device is taken, so seven of eight members fit.
	single := framework.SharePod("single", "100")
	create(t, c, single)
	if got := framework.Placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, single.Name)); got != "gpu/0" {
		t.Fatalf("a pod without a gang is at %s", got)
	}
	short := gang(t, c, "short")
	create(t, c, short...)
	for _, pod := range short {
		c.WaitForPodUnschedulable(t, pod.Namespace, pod.Name)
	}
	if got := bound(t, c, short); len(got) > 0 {
		t.Errorf("a gang of %d got part of its devices: %v", gangSize, got)
	}
	remove(t, c, append(short, single)...)

	// Seven members wait for an eighth that another scheduler is asked to place, so
	// they hold their devices until the time is over. That one comes first: what
	// other schedulers' pods do does not wake those that found the gang too small.
	late := gang(t, c, "late")
	late[0].Spec.SchedulerName = "nobody"
	late[0].Spec.Containers[0].Resources = corev1.ResourceRequirements{} // the policies keep shares from other schedulers
	create(t, c, late...)
	// The whole node: it cannot be placed as long as one reservation is left.
	node := framework.SharePod("node", "8000")
	waiting := time.Now()
	expectWaiting(t, c, late[1:])
	create(t, c, node)
	c.WaitForEvent(t, metav1.NamespaceDefault, node.Name, "", "node(s) didn't have enough free device share")
	all := "gpu/" + strings.Join([]string{"0", "1", "2", "3", "4", "5", "6", "7"}, ",")
	if got := framework.Placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, node.Name)); got != all {
		t.Errorf("the pod that takes the whole node is at %s, want %s", got, all)
	}
	t.Logf("the devices were free %v after the gang was created", time.Since(waiting).Round(time.Millisecond))
	if got := bound(t, c, late); len(got) > 0 {
		t.Errorf("a gang that was given up is bound in part: %v", got)
	}
	remove(t, c, append(late, node)...)

	// Everything is free again, and a gang that is complete gets all of it: first the
	// one of the samples, then one whose pods are bare.
	c.Kubectl(t, "apply", "--validate=strict", "-f", install.Path("manifests/components/gang/sample.yaml"))
	devices := map[string]bool{}
	for _, pod := range jobPods(t, c, "gang", gangSize) {
		devices[framework.Placement(c.WaitForPodScheduled(t, pod.Namespace, pod.Name))] = true
	}
	if len(devices) != gangSize {
		t.Errorf("%d members of the sample share %d devices", gangSize, len(devices))
	}
	c.Kubectl(t, "delete", "--wait", "--cascade=foreground", "-f", install.Path("manifests/components/gang/sample.yaml"))
	whole := gang(t, c, "whole")
	create(t, c, whole...)
	want := map[string][]use{}
	for _, pod := range whole {
		want[framework.Placement(c.WaitForPodScheduled(t, pod.Namespace, pod.Name))] = []use{{pod.Name, 1000}}
	}
	if len(want) != gangSize {
		t.Errorf("%d members share %d devices", gangSize, len(want))
	}
	if diff := cmp.Diff(want, held(t, c), cmp.AllowUnexported(use{})); diff != "" {
		t.Errorf("What the containers read and what is recorded differ (-read,+recorded):\n%s", diff)
	}
}

// jobPods waits until a Job has made n pods, and returns them.
func jobPods(t *testing.T, c *framework.Cluster, job string, n int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	framework.WaitForCondition(t, framework.WaitTimeout, "the pods of job "+job, func() (bool, error) {
		list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
		if err != nil {
			return false, err
		}
		pods = list.Items
		return len(pods) == n, fmt.Errorf("there are %d of %d", len(pods), n)
	})
	return pods
}

// expectWaiting waits until every one of the pods has a node reserved and waits
// for its gang: its status says which node, though it has none.
func expectWaiting(t *testing.T, c *framework.Cluster, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		c.WaitForPod(t, pod.Namespace, pod.Name, "to wait for its gang", func(pod *corev1.Pod) bool {
			return pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "gpu"
		})
	}
}

// TestGangNeedsItsDefinition starts a scheduler of gangs on clusters that lack something.
func TestGangNeedsItsDefinition(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 1})
	c.ApplyManifests(t, "manifests/base")
	kubeconfig := c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler)
	for _, tt := range []struct {
		name    string
		profile string
		apply   string
		args    []string
		want    []string
	}{
		{"no PodGroups of Kubernetes", gpuProfile, "", []string{featureGates}, []string{
			"--feature-gates: GenericWorkload=true needs PodGroups of " + compat.PodGroups + ", which the API server does not serve",
		}},
		{"no definition", gangProfile, "", nil, []string{
			"the API server does not serve 1 resource(s)",
			"podgroups.scheduling.x-k8s.io: Coscheduling needs it; manifests/components/gang/podgroups.yaml defines it",
		}},
		{"no rights", gangProfile, "manifests/components/gang/podgroups.yaml", nil, []string{
			"list podgroups.scheduling.x-k8s.io: Coscheduling reads them",
			"watch podgroups.scheduling.x-k8s.io: Coscheduling reads them",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.profile == gangProfile && compat.Release != "1.36" {
				tt.want = []string{"Coscheduling is in Berth's build for Kubernetes 1.36 alone"}
			}
			if tt.apply != "" {
				c.ApplyManifests(t, tt.apply)
				c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/podgroups.scheduling.x-k8s.io")
			}
			scheduler := c.LaunchScheduler(t, framework.BerthScheduler, tt.profile, framework.SchedulerOptions{Kubeconfig: kubeconfig, Args: tt.args})
			if code := scheduler.Wait(t, framework.WaitTimeout); code == 0 {
				t.Error("the scheduler ended as if all was well")
			}
			output := scheduler.Output()
			if missing := slices.DeleteFunc(tt.want, func(want string) bool { return strings.Contains(output, want) }); len(missing) > 0 {
				t.Errorf("the scheduler did not say %q", missing)
			}
		})
	}
}
