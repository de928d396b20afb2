// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	inStead = "config/berth-scheduler/default-scheduler.yaml"
	beside  = "config/berth-scheduler/all-plugins.yaml"
)

// TestBesideStockWithoutElection: a stock scheduler that runs without leader
// election never touches the lease, so Berth must not take it on its own.
func TestBesideStockWithoutElection(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 2})
	credential := c.StockSchedulerKubeconfig(t)
	stock := c.StartStockScheduler(t, "", framework.SchedulerOptions{Kubeconfig: credential})

	elects := framework.SchedulerOptions{Kubeconfig: credential, LeaderElect: true}
	refused := c.LaunchScheduler(t, framework.BerthScheduler, inStead, elects)
	if code := refused.Wait(t, framework.WaitTimeout); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"leaderElection.resourceName", "no scheduler has ever held the lease kube-system/kube-scheduler", "--sole-default-scheduler"} {
		if !strings.Contains(refused.Output(), want) {
			t.Errorf("want %q in\n%s", want, refused.Output())
		}
	}
	if _, err := c.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "kube-scheduler", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lease: want it not to exist, got %v", err)
	}
	c.CreatePod(t, framework.Pod(metav1.NamespaceDefault, "by-stock", corev1.DefaultSchedulerName))
	c.WaitForPodRunning(t, "default", "by-stock")
	stock.Stop(t)

	said := elects
	said.Args = []string{"--sole-default-scheduler"}
	first := c.LaunchScheduler(t, framework.BerthScheduler, inStead, said)
	c.CreatePod(t, framework.Pod(metav1.NamespaceDefault, "by-berth", corev1.DefaultSchedulerName))
	c.WaitForPodRunning(t, "default", "by-berth")
	first.Stop(t)
	// Now somebody has held it.
	c.LaunchScheduler(t, framework.BerthScheduler, inStead, elects)
	c.CreatePod(t, framework.Pod(metav1.NamespaceDefault, "after", corev1.DefaultSchedulerName))
	c.WaitForPodRunning(t, "default", "after")
}

// standbyNamesTheHolder has three processes on one lease: the holder, a replica
// of it, and a scheduler of other profiles, whose pods nobody places.
func standbyNamesTheHolder(t *testing.T) {
	c := shared.Use(t, localcluster.FakeNodes(1))
	elects := framework.SchedulerOptions{LeaderElect: true}
	c.StartBerthScheduler(t, beside, elects)
	leases := c.Client.CoordinationV1().Leases(names.Namespace)
	var holder string
	framework.WaitForCondition(t, framework.WaitTimeout, "a holder of the lease", func() (bool, error) {
		lease, err := leases.Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, err
		}
		holder = *lease.Spec.HolderIdentity
		return holder != "", nil
	})

	replica := c.StartBerthScheduler(t, beside, elects)
	replica.WaitForOutput(t, framework.WaitTimeout, `"Standing by while another replica holds the lease" lease="berth-system/berth-scheduler" holder="`+holder+`"`)
	replica.WaitReady(t)

	content, err := os.ReadFile(filepath.Join(framework.Root(), beside))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte(strings.ReplaceAll(string(content), "schedulerName: "+names.Scheduler, "schedulerName: another")), 0o600); err != nil {
		t.Fatal(err)
	}
	elects.Kubeconfig = c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler)
	stranger := c.LaunchScheduler(t, framework.BerthScheduler, other, elects)
	message := "the lease berth-system/berth-scheduler is held by " + holder + ", which does not serve another"
	stranger.WaitForOutput(t, framework.WaitTimeout, message)
	if err := stranger.Ready(t); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("/readyz: want it to fail with %q, got %v", message, err)
	}
}

// apiServerIsDown: what is wrong is said at once, and again, and what a start
// checks is checked as soon as the API server is there.
func apiServerIsDown(t *testing.T) {
	c := shared.Use(t, localcluster.FakeNodes(1))
	options := framework.SchedulerOptions{
		Kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), LeaderElect: true,
	}
	inSteadOptions := framework.SchedulerOptions{Kubeconfig: c.StockSchedulerKubeconfig(t), LeaderElect: true}
	if err := c.KillComponent("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	scheduler := c.LaunchScheduler(t, framework.BerthScheduler, beside, options)
	refused := c.LaunchScheduler(t, framework.BerthScheduler, inStead, inSteadOptions)
	message := "cannot reach " + c.Server() + ": connection refused"
	scheduler.WaitForOutput(t, framework.WaitTimeout, message)
	refused.WaitForOutput(t, framework.WaitTimeout, message)
	if strings.Contains(scheduler.Output(), "does this credential's role allow it") {
		t.Errorf("the output blames the role:\n%s", scheduler.Output())
	}
	if err := c.RestartComponent(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	if code := refused.Wait(t, framework.WaitTimeout); code != 1 || !strings.Contains(refused.Output(), "--sole-default-scheduler") {
		t.Errorf("exit code %d, want 1 and a way out, in\n%s", code, refused.Output())
	}
	c.CreatePod(t, framework.Pod(metav1.NamespaceDefault, "late", names.Scheduler))
	c.WaitForPodRunning(t, "default", "late")
}
