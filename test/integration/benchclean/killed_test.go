// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	kubectlBerth = "kubectl-berth"
	workload     = "test/integration/benchclean/testdata/killed.yaml"
	// A cluster sees so many kills.
	working, closing = 4, 1
)

// TestKilled kills the benchmark at five moments: four spread by chance over its work,
// from its first breath on, and one over the time in which it removes what it has
// created; at full size at ten. After each, and "bench clean", the cluster holds what
// it held before. So it does after a benchmark that ends by itself.
func TestKilled(t *testing.T) {
	t.Parallel()
	clusters := 1
	if framework.Long() {
		clusters = 2
	}
	for i := range clusters {
		t.Run(fmt.Sprintf("cluster %d", i), func(t *testing.T) {
			t.Parallel()
			killRepeatedly(t)
		})
	}
}

// startBench starts a short benchmark.
func startBench(t *testing.T, c *framework.Cluster) *framework.Process {
	t.Helper()
	return framework.StartProcess(t, kubectlBerth, "bench", "-f", workload, "--kubeconfig", c.Kubeconfig,
		"--schedulers", "default-scheduler", "--rounds", "1", "--steady-rounds", "0")
}

func killRepeatedly(t *testing.T) {
	c, before := start(t)
	clean := func() string {
		// By force: it does not wait for the Lease of the killed one to expire.
		process := framework.StartProcess(t, kubectlBerth, "bench", "clean", "--force", "--kubeconfig", c.Kubeconfig)
		if code := process.Wait(t, framework.WaitTimeout); code != 0 {
			t.Errorf("bench clean ended with %d", code)
		}
		return strings.TrimSpace(process.Output())
	}

	began := time.Now()
	whole := startBench(t, c)
	whole.WaitForOutput(t, framework.WaitTimeout, "removing what run")
	work := time.Since(began)
	if code := whole.Wait(t, framework.WaitTimeout); code != 0 {
		t.Fatalf("the benchmark ended with %d", code)
	}
	end := time.Since(began)
	compare(t, c, before, "after a benchmark that ended")

	seed := rand.Uint64()
	t.Logf("a benchmark works for %v and ends after %v; the moments come from seed %d", work.Round(time.Millisecond), end.Round(time.Millisecond), seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var moments []time.Duration
	for i := range working {
		moments = append(moments, time.Duration((float64(i)+random.Float64())/working*float64(work)))
	}
	for range closing {
		moments = append(moments, work+time.Duration(random.Float64()*float64(end-work)))
	}
	found := 0
	for _, moment := range moments {
		process := startBench(t, c)
		select {
		case <-process.Done(): // faster this time
		case <-time.After(moment):
		}
		process.Kill()
		said := clean()
		t.Logf("killed after %v, then bench clean says: %s", moment.Round(time.Millisecond), said)
		if strings.Contains(said, "deleted from the cluster") {
			found++
		}
		compare(t, c, before, fmt.Sprintf("after a benchmark that was killed after %v", moment))
	}
	// One that found nothing to do would leave the cluster as it was, too.
	if found < len(moments)/2 {
		t.Errorf("bench clean has removed something after %d of %d kills, want most", found, len(moments))
	}
	if said := clean(); !strings.Contains(said, "nothing to delete") {
		t.Errorf("bench clean of a clean cluster says %q", said)
	}
	compare(t, c, before, "at the end")
}

// killedWithKwok kills the benchmark together with what plays the kubelets of its nodes:
// whoever deletes the namespace deletes all of it, but for the events about nodes, which
// expire.
func killedWithKwok(t *testing.T, c *framework.Cluster) {
	process := startBench(t, c)
	process.WaitForOutput(t, framework.WaitTimeout, "round 1 of 1")
	selector := metav1.ListOptions{LabelSelector: names.BenchLabel}
	framework.WaitForCondition(t, framework.WaitTimeout, "pods of the benchmark to have a node", func() (bool, error) {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), selector)
		return err == nil && slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" }), err
	})
	process.Kill()
	if err := c.KillComponent(localcluster.Kwok); err != nil {
		t.Fatal(err)
	}
	namespaces, err := c.Client.CoreV1().Namespaces().List(t.Context(), selector)
	if err != nil {
		t.Fatal(err)
	}
	for i := range namespaces.Items {
		if namespaces.Items[i].Name != "labeled" { // a stranger's
			c.Kubectl(t, "delete", "namespace", namespaces.Items[i].Name, "--timeout=1m")
		}
	}
	framework.WaitForCondition(t, framework.WaitTimeout, "the nodes and their Leases to be gone", func() (bool, error) {
		nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: names.BenchLabel + "!=" + strangerID + "," + names.BenchLabel})
		if err != nil {
			return false, err
		}
		leases, err := c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		own := slices.DeleteFunc(leases.Items, func(lease coordinationv1.Lease) bool {
			return !strings.HasPrefix(lease.Name, names.BenchPrefix) || lease.Name == "berth-bench-mine" || strings.HasPrefix(lease.Name, "berth-bench-"+strangerID)
		})
		return len(nodes.Items)+len(own) == 0, fmt.Errorf("%d nodes, %d Leases are left", len(nodes.Items), len(own))
	})
	if err := c.RestartComponent(t.Context(), localcluster.Kwok); err != nil {
		t.Fatal(err)
	}
}
