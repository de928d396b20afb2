// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// scenario is something that runs do to a cluster.
type scenario struct {
	name string
	run  func(*testing.T, *framework.Cluster)
}

// TestEnvironment goes through what runs do to one cluster, which holds what it held before
// at the end: first those that may happen side by side, then those that may not.
func TestEnvironment(t *testing.T) { //nolint:tparallel // the second half may not run side by side
	t.Parallel()
	c, before := start(t)
	together := t.Run("together", func(t *testing.T) {
		for _, tt := range []scenario{
			{"a run that ends", runEnds},
			{"a run whose context has ended", runCancelled},
			{"two runs", runsSideBySide},
			{"a scheduler that does not answer", schedulerMissing},
			{"a pod on a node of the cluster", podOnForeignNode},
			{"rights, and no more", exactRights},
			{"no right to create nodes", missingRights},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				tt.run(t, c)
			})
		}
	})
	compare(t, c, before, "after runs side by side")
	if !together {
		return // what they have left would be the next one's
	}
	for _, tt := range []scenario{
		{"an id that others use", strangersStay},
		{"a run that is alive", aliveStays},
		{"a pod that fake nodes hold up", spreadPod},
		{"no kwok", noKwok},
		{"no API server while closing", noServerWhileClosing},
		{"a pod with a finalizer", stuckFinalizer},
	} {
		if !t.Run(tt.name, func(t *testing.T) { tt.run(t, c) }) {
			return
		}
		compare(t, c, before, "after "+tt.name)
	}
	t.Run("killed with kwok", func(t *testing.T) { killedWithKwok(t, c) })
}

func prepare(t *testing.T, c *framework.Cluster, options environment.Options) *environment.Environment {
	t.Helper()
	e, err := environment.Prepare(t.Context(), c.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closeEnvironment(t *testing.T, e *environment.Environment) {
	t.Helper()
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

func runEnds(t *testing.T, c *framework.Cluster) {
	e := prepare(t, c, environment.Options{})
	if err := e.Probe(t.Context(), "default-scheduler"); err != nil {
		t.Errorf("Probe() before there are nodes = %v", err)
	}
	fill(t, e, 3, 5)
	if err := e.Probe(t.Context(), "default-scheduler"); err != nil {
		t.Errorf("Probe() = %v", err)
	}
	pods := c.Client.CoreV1().Pods(e.Namespace())
	framework.WaitForCondition(t, framework.WaitTimeout, "every pod to have a node", func() (bool, error) {
		list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
		return err == nil && len(list.Items) == 0, err
	})
	placed, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range placed.Items {
		if err := e.CheckNode(&placed.Items[i]); err != nil {
			t.Errorf("CheckNode() = %v", err)
		}
	}
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for i := range nodes.Items {
		if e.OwnsNode(nodes.Items[i].Name) {
			own++
			if cpu := nodes.Items[i].Status.Allocatable[corev1.ResourceCPU]; cpu.Value() != 32 {
				t.Errorf("node %s offers %s CPUs, want the planned 32", nodes.Items[i].Name, cpu.String())
			}
		}
	}
	if own != 3 {
		t.Errorf("the run has %d nodes, want 3", own)
	}
	daemons, err := c.Client.CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "app=linux"})
	if err != nil || len(daemons.Items) != 5 {
		t.Errorf("a DaemonSet for Linux has %d pods (%v), want none besides the 5 on the cluster's nodes", len(daemons.Items), err)
	}
	if err := e.Reset(t.Context()); err != nil {
		t.Errorf("Reset() = %v", err)
	}
	left, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("after Reset() there are %d pods (%v), want none", len(left.Items), err)
	}
	services, err := c.Client.CoreV1().Services(e.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) > 0 {
		t.Errorf("after Reset() there are %d Services (%v), want none", len(services.Items), err)
	}
	fill(t, e, 4, 5) // another workload
	closeEnvironment(t, e)
	closeEnvironment(t, e) // and once more
}

func runCancelled(t *testing.T, c *framework.Cluster) {
	ctx, cancel := context.WithCancel(t.Context())
	// While the fake node is being checked.
	e, err := environment.Prepare(ctx, c.Config, environment.Options{Progress: func(string) { cancel() }})
	if e != nil || err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("Prepare() with a context that ends = %v, %v, want nothing and %v", e, err, context.Canceled)
	}
}

func runsSideBySide(t *testing.T, c *framework.Cluster) {
	one, other := prepare(t, c, environment.Options{}), prepare(t, c, environment.Options{})
	fill(t, one, 2, 2)
	fill(t, other, 2, 2)
	closeEnvironment(t, one)
	list, err := c.Client.CoreV1().Pods(other.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 4 {
		t.Errorf("after the other run's Close() a run has %d pods (%v), want 4", len(list.Items), err)
	}
	if err := other.Probe(t.Context(), "default-scheduler"); err != nil {
		t.Errorf("Probe() after the other run's Close() = %v", err)
	}
	closeEnvironment(t, other)
}

func schedulerMissing(t *testing.T, c *framework.Cluster) {
	e := prepare(t, c, environment.Options{Timeout: 2 * time.Second})
	defer closeEnvironment(t, e)
	wantError(t, e.Probe(t.Context(), "nobody"), "scheduler nobody", "it is not running")
	// One that runs and does not find a node says so.
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), e.NodeName("probe"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if _, err := c.Client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// It may bind a pod yet before it has seen that, or be slower than the timeout.
	framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler to say that it finds no node", func() (bool, error) {
		err = e.Probe(t.Context(), "default-scheduler")
		return err != nil && strings.Contains(err.Error(), "FailedScheduling"), err
	})
	wantError(t, err, "default-scheduler", "FailedScheduling", "were unschedulable")
}

func podOnForeignNode(t *testing.T, c *framework.Cluster) {
	e := prepare(t, c, environment.Options{})
	defer closeEnvironment(t, e)
	pod := planned("astray", "app")
	e.Adopt(pod)
	pod.Spec.NodeName = "node-0"
	pod, err := c.Client.CoreV1().Pods(e.Namespace()).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, e.CheckNode(pod), "pod "+e.Namespace()+"/astray", "node node-0", "not one of the run's")
}

func strangersStay(t *testing.T, c *framework.Cluster) {
	for _, id := range []string{"", strangerID} {
		removed, err := environment.Clean(t.Context(), c.Config, environment.CleanOptions{RunID: id, Force: true})
		if err != nil || len(removed.Runs) > 0 {
			t.Errorf("Clean(%q) = %+v, %v, want nothing", id, removed, err)
		}
	}
	_, err := environment.Prepare(t.Context(), c.Config, environment.Options{RunID: strangerID})
	wantError(t, err, "berth-bench-"+strangerID, "already exists")
}

func spreadPod(t *testing.T, c *framework.Cluster) {
	c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: spread, namespace: default, labels: {app: spread}}
spec:
  schedulerName: nobody
  containers: [{name: main, image: example.com/app}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: spread}}}
`)
	_, err := environment.Prepare(t.Context(), c.Config, environment.Options{RunID: strangerID})
	wantError(t, err, "pod default/spread", "over topology.kubernetes.io/zone", "--ignore-spread-constraints")
	// It goes on to where this id is in use.
	_, err = environment.Prepare(t.Context(), c.Config, environment.Options{RunID: strangerID, IgnoreSpread: true})
	wantError(t, err, "already exists")
	if err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "spread", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func noKwok(t *testing.T, c *framework.Cluster) {
	if err := c.KillComponent(localcluster.Kwok); err != nil {
		t.Fatal(err)
	}
	_, err := environment.Prepare(t.Context(), c.Config, environment.Options{Timeout: 2 * time.Second})
	wantError(t, err, "kwok does not run in this cluster", "kubectl apply -f https://github.com/kubernetes-sigs/kwok/")
	if err := c.RestartComponent(t.Context(), localcluster.Kwok); err != nil {
		t.Fatal(err)
	}
}

func noServerWhileClosing(t *testing.T, c *framework.Cluster) {
	e := prepare(t, c, environment.Options{})
	fill(t, e, 2, 2)
	settled(t, c) // so that no event about the nodes is under way, and gets lost
	if err := c.KillComponent(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	wantError(t, e.Close(ctx), "run "+e.RunID(), c.Server(), environment.CleanCommand(e.RunID()))
	if err := c.RestartComponent(t.Context(), localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	// Controllers take up their work some seconds later. Another run sees that they do.
	closeEnvironment(t, prepare(t, c, environment.Options{}))
	closeEnvironment(t, e)
}

// stuckFinalizer shows that what does not go is named, and goes once it can.
func stuckFinalizer(t *testing.T, c *framework.Cluster) {
	e := prepare(t, c, environment.Options{})
	pod := planned("stuck", "app")
	pod.Finalizers = []string{"example.com/stuck"}
	e.Adopt(pod)
	pods := c.Client.CoreV1().Pods(e.Namespace())
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	wantError(t, e.Close(ctx), "run "+e.RunID(), "removing pods: 1 left, among them stuck")
	if _, err := pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	closeEnvironment(t, e)
}

// wantError wants an error that says all of this.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
