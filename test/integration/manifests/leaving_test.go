// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// latecomer is a pod for a scheduler that has left.
const latecomer = `
apiVersion: v1
kind: Pod
metadata: {name: latecomer, namespace: default}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x}]
`

// TestLeaving follows the section "Leaving" of manifests/README.md in a cluster
// with a workload of Berth's.
func TestLeaving(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 2})
	install.Apply(t, c, "base")
	scheduler := install.Start(t, c)
	c.Kubectl(t, "apply", "-f", install.Path("manifests/samples/hello.yaml"))
	before := waitForHello(t, c, names.Scheduler)

	// What the deletion of the Deployment does to its pods.
	if code := scheduler.Stop(t); code != 0 {
		t.Errorf("after SIGTERM the scheduler ended with code %d", code)
	}
	c.Kubectl(t, "delete", "-k", install.Path("manifests/base"))
	c.Apply(t, latecomer)

	t.Run("running pods are untouched", func(t *testing.T) {
		if diff := cmp.Diff(before, waitForHello(t, c, names.Scheduler)); diff != "" {
			t.Errorf("the pods changed while Berth left (-before,+after):\n%s", diff)
		}
	})

	t.Run("nothing of Berth is left", func(t *testing.T) {
		for _, r := range install.Build(t, install.Path("manifests/base")).Resources() {
			if got := c.KubectlErr(t, "get", r.GetKind(), r.GetName(), "--namespace="+r.GetNamespace()); !strings.Contains(got, "NotFound") {
				t.Errorf("%s %s: want NotFound, got %s", r.GetKind(), r.GetName(), got)
			}
		}
	})

	t.Run("the README's command lists who waits", func(t *testing.T) {
		command := readmeLine(t, "kubectl get pods -A --field-selector spec.schedulerName="+names.Scheduler+",status.phase=Pending")
		if diff := cmp.Diff("pod/latecomer", podNames(t, c, command)); diff != "" {
			t.Errorf("unexpected list (-want,+got):\n%s", diff)
		}
	})

	t.Run("a workload moves to the cluster's own scheduler", func(t *testing.T) {
		framework.StartProcess(t, framework.KubeScheduler,
			"--kubeconfig="+c.StockSchedulerKubeconfig(t), "--secure-port=0")
		c.Kubectl(t, "patch", "deployment", "-n", "default", "hello", "--type=json",
			`--patch=[{"op": "remove", "path": "/spec/template/spec/schedulerName"}]`)
		waitForHello(t, c, corev1.DefaultSchedulerName)

		command := readmeLine(t, "kubectl get pods -A --field-selector spec.schedulerName="+names.Scheduler+"`")
		if diff := cmp.Diff("pod/latecomer", podNames(t, c, command)); diff != "" {
			t.Errorf("unexpected list of pods that still name Berth (-want,+got):\n%s", diff)
		}
	})
}

// leavingWithoutTheRandomScheduler: the two share a namespace, and one of them
// can go alone.
func leavingWithoutTheRandomScheduler(t *testing.T, c *framework.Cluster) {
	t.Helper()
	install.Apply(t, c, "base")
	install.Apply(t, c, "random-scheduler")
	command := readmeLine(t, "kubectl delete -k manifests/base -l app.kubernetes.io/name="+names.Scheduler)
	c.Kubectl(t, strings.Fields(command)[1:]...)

	left := map[string]bool{}
	for _, r := range install.Build(t, install.Path("manifests/random-scheduler")).Resources() {
		left[r.CurId().String()] = true
		c.Kubectl(t, "get", r.GetKind(), r.GetName(), "--namespace="+r.GetNamespace())
	}
	for _, r := range install.Build(t, install.Path("manifests/base")).Resources() {
		if left[r.CurId().String()] {
			continue // the namespace
		}
		if got := c.KubectlErr(t, "get", r.GetKind(), r.GetName(), "--namespace="+r.GetNamespace()); !strings.Contains(got, "NotFound") {
			t.Errorf("%s %s: want NotFound, got %s", r.GetKind(), r.GetName(), got)
		}
	}
}

// run is what must not change about a running pod.
type run struct {
	Node     string
	Started  metav1.Time
	Restarts int32
}

// waitForHello waits until all pods of samples/hello.yaml run, and are pods of
// the given scheduler.
func waitForHello(t *testing.T, c *framework.Cluster, schedulerName string) map[types.UID]run {
	t.Helper()
	var runs map[types.UID]run
	framework.WaitForCondition(t, framework.WaitTimeout, "two running pods of "+schedulerName, func() (bool, error) {
		pods, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=hello"})
		if err != nil {
			return false, err
		}
		runs = map[types.UID]run{}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning || pod.Spec.SchedulerName != schedulerName || len(pod.Status.ContainerStatuses) == 0 {
				return false, nil
			}
			status := pod.Status.ContainerStatuses[0]
			if status.State.Running == nil {
				return false, nil
			}
			runs[pod.UID] = run{Node: pod.Spec.NodeName, Started: status.State.Running.StartedAt, Restarts: status.RestartCount}
		}
		return len(runs) == 2, nil
	})
	return runs
}

// podNames runs a kubectl command that lists pods and returns their names.
func podNames(t *testing.T, c *framework.Cluster, command string) string {
	t.Helper()
	args := strings.Fields(command)[1:]
	args = append(args, "-o", "name")
	return strings.TrimSpace(c.Kubectl(t, args...))
}

// readmeLine fails unless manifests/README.md contains the command.
func readmeLine(t *testing.T, command string) string {
	t.Helper()
	content, err := os.ReadFile(install.Path("manifests/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), command) {
		t.Fatalf("manifests/README.md does not contain %q", command)
	}
	return strings.TrimSuffix(command, "`")
}
