// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// taintedBeforeLabeled: a node registers with the taint, and is not labeled yet. It
// belongs to a tenant that is not known, and so takes no pod.
func taintedBeforeLabeled(t *testing.T) {
	c, _ := start(t)
	addNamespace(t, c, "team-a", "a")
	addNamespace(t, c, "team-b", "b")
	addNamespace(t, c, "no-tenant", "")
	halfway := node("halfway", "b")
	delete(halfway.Labels, names.TenantNodeLabel)
	c.CreateNode(t, halfway)

	for _, namespace := range []string{"no-tenant", "team-a", "team-b"} {
		pod := newPod(namespace, "tolerant")
		pod.Spec.Tolerations = tolerateAll
		c.CreatePod(t, pod)
		waitForRefusal(t, c, namespace, "tolerant")
	}
	exempt := newPod(metav1.NamespaceSystem, "agent")
	exempt.Spec.Tolerations = tolerateAll
	c.CreatePod(t, exempt)
	c.WaitForPodScheduled(t, metav1.NamespaceSystem, "agent")

	t.Run("the label lets its tenant in", func(t *testing.T) {
		c.Kubectl(t, "label", "node", "halfway", names.TenantNodeLabel+"=b")
		c.WaitForPodScheduled(t, "team-b", "tolerant")
	})
	t.Run("a taint that disagrees keeps its tenant out again", func(t *testing.T) {
		c.Kubectl(t, "taint", "--overwrite", "node", "halfway", names.TenantLabel+"=a:NoSchedule")
		late := newPod("team-b", "late")
		late.Spec.Tolerations = tolerateAll
		framework.WaitForCondition(t, framework.WaitTimeout, "a pod of team-b to be refused", func() (bool, error) {
			// A pod that comes before the scheduler has heard of the taint is placed.
			c.Kubectl(t, "delete", "pod", "-n", "team-b", "late", "--ignore-not-found", "--force", "--grace-period=0")
			c.CreatePod(t, late)
			decided := c.WaitForPod(t, "team-b", "late", "decided", func(pod *corev1.Pod) bool { return framework.PodScheduledCondition(pod) != nil })
			return decided.Spec.NodeName == "", nil
		})
		waitForRefusal(t, c, "team-b", "late")
	})
	t.Run("no taint, and the label counts alone", func(t *testing.T) {
		c.Kubectl(t, "taint", "node", "halfway", names.TenantLabel+"-")
		c.WaitForPodScheduled(t, "team-b", "late")
	})
	for _, namespace := range []string{"no-tenant", "team-a"} {
		waitForRefusal(t, c, namespace, "tolerant")
	}
}

// TestAnotherOverlayOverTenancy: applying an overlay without tenancy is refused.
// Where it is forced, its scheduler serves no name that the policies trust.
func TestAnotherOverlayOverTenancy(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{node("b1", "b")}})
	addNamespaces(t, c)
	installPolicy(t, c)
	deployments := c.Client.AppsV1().Deployments(names.Namespace)
	arguments := func() []string {
		deployment, err := deployments.Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return deployment.Spec.Template.Spec.Containers[0].Args
	}
	want := arguments()
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy on the Deployment", func() (bool, error) {
		deployment, err := deployments.Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		deployment.Spec.Template.Spec.Containers[0].Args = nil
		_, err = deployments.Update(t.Context(), deployment, metav1.UpdateOptions{DryRun: dryRun})
		return apierrors.IsForbidden(err), err
	})

	for _, overlay := range []string{"base", "overlays/ha", "overlays/gpu"} {
		t.Run(overlay, func(t *testing.T) {
			output := c.KubectlErr(t, "apply", "-k", install.Path("manifests", overlay))
			for _, text := range []string{"berth-tenancy-deployment", "overlays/ha-tenancy", "kubectl delete -k manifests/components/tenancy"} {
				if !strings.Contains(output, text) {
					t.Errorf("want %q in\n%s", text, output)
				}
			}
			if got := arguments(); !slices.Equal(got, want) {
				t.Errorf("the Deployment has arguments %q now", got)
			}
		})
	}
	t.Run("overlays/ha-tenancy", func(t *testing.T) { install.Apply(t, c, "overlays/ha-tenancy") })

	t.Run("forced", func(t *testing.T) {
		c.Kubectl(t, "delete", "validatingadmissionpolicybinding", "berth-tenancy-deployment")
		framework.WaitForCondition(t, framework.WaitTimeout, "the policy to end", func() (bool, error) {
			deployment, err := deployments.Get(t.Context(), names.Scheduler, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			deployment.Spec.Template.Spec.Containers[0].Args = []string{"--config=/etc/berth-scheduler/all-plugins.yaml"}
			_, err = deployments.Update(t.Context(), deployment, metav1.UpdateOptions{DryRun: dryRun})
			return err == nil, err
		})
		install.Apply(t, c, "overlays/ha")
		install.Start(t, c).WaitReady(t)

		tolerant := newPod("no-tenant", "tolerant")
		tolerant.Spec.Tolerations = tolerateAll
		c.CreatePod(t, tolerant)
		inName := newPod("no-tenant", "in-name")
		inName.Spec.SchedulerName = names.Scheduler
		inName.Spec.Tolerations = tolerateAll
		_, err := c.Client.CoreV1().Pods("no-tenant").Create(t.Context(), inName, metav1.CreateOptions{})
		framework.CheckDenied(t, err, []string{"spec.tolerations", names.Scheduler})

		// The scheduler runs, and has placed a pod that came later.
		c.CreateNode(t, node("shared", ""))
		plain := newPod("no-tenant", "plain")
		plain.Spec.SchedulerName = names.Scheduler
		c.CreatePod(t, plain)
		if placed := c.WaitForPodScheduled(t, "no-tenant", "plain"); placed.Spec.NodeName != "shared" {
			t.Errorf("the plain pod is on %s", placed.Spec.NodeName)
		}
		waiting, err := c.Client.CoreV1().Pods("no-tenant").Get(t.Context(), "tolerant", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if waiting.Spec.NodeName != "" {
			t.Errorf("the pod that tolerates the taint is on %s", waiting.Spec.NodeName)
		}
	})
}
