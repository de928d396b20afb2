// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// missingRightIsNamedAtStart takes every single right out of the manifests'
// role in turn. That random-scheduler works with all of them, every other test
// here shows; so they are neither too few nor too many.
func missingRightIsNamedAtStart(t *testing.T) {
	c := start(t, nil)
	roles := c.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), names.RandomScheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	original := role.DeepCopy().Rules
	update := func(t *testing.T, rules []rbacv1.PolicyRule) {
		t.Helper()
		role.Rules, role.ResourceVersion = rules, ""
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	self := framework.ClientFor(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.RandomScheduler))
	for i, rule := range original {
		for _, verb := range rule.Verbs {
			if len(rule.APIGroups) != 1 || len(rule.Resources) != 1 {
				t.Fatalf("rule %d: this test takes one group and resource a rule", i)
			}
			t.Run(verb+"-"+strings.ReplaceAll(rule.Resources[0], "/", "-"), func(t *testing.T) {
				rules := slices.Clone(original)
				rules[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
				if len(rules[i].Verbs) == 0 {
					rules = slices.Delete(rules, i, i+1)
				}
				update(t, rules)
				defer update(t, original)

				resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
				attributes := &authorizationv1.ResourceAttributes{Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: subresource}
				framework.WaitForCondition(t, framework.WaitTimeout, "the authorizer to see the change", func() (bool, error) {
					review, err := self.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
						&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}, metav1.CreateOptions{})
					return err == nil && !review.Status.Allowed, err
				})
				p := launch(t, c)
				if code := p.Wait(t, framework.WaitTimeout); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				want := verb + " " + resource
				if rule.APIGroups[0] != "" {
					want += "." + rule.APIGroups[0]
				}
				if subresource != "" {
					want += "/" + subresource
				}
				for _, text := range []string{want, "lacks 1 permission", "system:serviceaccount:berth-system:random-scheduler"} {
					if !strings.Contains(p.Output(), text) {
						t.Errorf("output does not contain %q:\n%s", text, p.Output())
					}
				}
			})
		}
	}
}

// deploymentRunsAsItSays starts the process with the arguments of the installed
// Deployment and asks it what the kubelet would.
func deploymentRunsAsItSays(t *testing.T) {
	nodes := localcluster.FakeNodes(2)
	c := start(t, nodes)
	// The controller-manager has made its pod, so the namespace's pod security
	// standard accepts it. A second one would bind beside it: there is no election.
	framework.WaitForCondition(t, framework.WaitTimeout, "the Deployment's pod", func() (bool, error) {
		return len(list(t, c, names.Namespace)) == 1, nil
	})
	deployment, err := c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), names.RandomScheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if strategy := deployment.Spec.Strategy.Type; strategy != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("the Deployment's strategy is %q, which runs two at once", strategy)
	}
	p := install.StartDeployment(t, c, names.Namespace, names.RandomScheduler)
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe} {
		if scheme := probe.HTTPGet.Scheme; scheme != corev1.URISchemeHTTP {
			t.Errorf("a probe asks by %s, and HTTP is served", scheme)
		}
		framework.WaitForCondition(t, framework.WaitTimeout, probe.HTTPGet.Path+" to answer 200", func() (bool, error) {
			code, page, err := p.Get(t.Context(), probe.HTTPGet.Path, "")
			return code == http.StatusOK, fmt.Errorf("%d %s %w", code, page, err)
		})
	}

	createMany(t, c, 3, "pod")
	create(t, c, newPod("waits", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }))
	waitAllBound(t, c, "default", 3)
	c.WaitForPodUnschedulable(t, "default", "waits")
	page := p.Page(t, "/metrics")
	for _, want := range []string{
		`berth_random_scheduler_schedule_attempts_total{result="scheduled"} 3`,
		`berth_random_scheduler_schedule_attempts_total{result="error"} 0`,
		`berth_random_scheduler_bind_duration_seconds_count{outcome="scheduled"} 3`,
		`berth_random_scheduler_pending_pods{queue="active"} 0`,
		`berth_random_scheduler_pending_pods{queue="unschedulable"} 1`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("there is no metric %s", want)
		}
	}
	// It is served without authentication.
	if strings.Contains(page, nodes[0].Name) {
		t.Errorf("/metrics names node %s", nodes[0].Name)
	}
}

// removalLeavesTheNamespaceAndTheRunningPods follows the README's way out.
func removalLeavesTheNamespaceAndTheRunningPods(t *testing.T) {
	c := start(t, localcluster.FakeNodes(1))
	p := run(t, c)
	create(t, c, newPod("runs"))
	uid := c.WaitForPodRunning(t, "default", "runs").UID
	p.Stop(t)
	create(t, c, newPod("waits"))
	c.Kubectl(t, "delete", "-k", "manifests/random-scheduler", "-l", "app.kubernetes.io/name=random-scheduler")
	if got := c.Kubectl(t, "get", "pods", "-A", "-o", "name", "--field-selector", "spec.schedulerName=random-scheduler,spec.nodeName="); got != "pod/waits\n" {
		t.Errorf("the pods that nobody will place are listed as %q, want pod/waits alone", got)
	}
	if pod := c.WaitForPodRunning(t, "default", "runs"); pod.UID != uid {
		t.Errorf("the running pod was replaced")
	}
	if got := c.Kubectl(t, "get", "namespace", names.Namespace, "-o", "jsonpath={.status.phase}"); got != "Active" {
		t.Errorf("namespace %s is %q after the removal, want Active", names.Namespace, got)
	}
	if got := c.Kubectl(t, "get", "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings", "-A", "-o", "name",
		"-l", "app.kubernetes.io/name=random-scheduler"); got != "" {
		t.Errorf("the removal left\n%s", got)
	}
}
