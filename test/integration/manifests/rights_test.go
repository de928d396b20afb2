// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// schedulerUser is who the scheduler is to the API server.
const schedulerUser = "system:serviceaccount:" + names.Namespace + ":" + names.Scheduler

// TestMissingRightIsNamed takes one rule after another out of the shipped roles.
// Each time the process must end, and name each right of the rule and no other.
// So it also shows that the roles grant nothing that the check does not know:
// with TestRolesSuffice, the two lists are the same.
func TestMissingRightIsNamed(t *testing.T) {
	c := framework.Start(t, framework.Options{})
	install.Apply(t, c, "base")

	clusterRole, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range clusterRole.Rules {
		t.Run(title(rule), func(t *testing.T) {
			if slices.Contains(rule.Resources, "devicetaintrules") && compat.Release == "1.36" {
				t.Skip("asked for from Kubernetes 1.37 on")
			}
			setClusterRules(t, c, slices.Concat(clusterRole.Rules[:i], clusterRole.Rules[i+1:]))
			defer setClusterRules(t, c, clusterRole.Rules)
			checkNamed(t, c, rightsOf(rule, ""))
		})
	}

	role, err := c.Client.RbacV1().Roles(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rule := range role.Rules {
		t.Run(title(rule), func(t *testing.T) {
			setRules(t, c, slices.Concat(role.Rules[:i], role.Rules[i+1:]))
			defer setRules(t, c, role.Rules)
			checkNamed(t, c, rightsOf(rule, names.Namespace))
		})
	}

	t.Run("the binding in kube-system", func(t *testing.T) {
		c.Kubectl(t, "delete", "rolebinding", "-n", metav1.NamespaceSystem, "berth-scheduler-authentication-reader")
		reader, err := c.Client.RbacV1().Roles(metav1.NamespaceSystem).Get(t.Context(), "extension-apiserver-authentication-reader", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkNamed(t, c, rightsOf(reader.Rules[0], metav1.NamespaceSystem))
	})
}

// checkNamed waits until the authorizer denies every one of lost, runs the
// scheduler, and expects it to end and to name exactly lost.
func checkNamed(t *testing.T, c *framework.Cluster, lost []preflight.Right) {
	t.Helper()
	waitForAnswer(t, c, lost, false)
	scheduler := install.Start(t, c)
	if code := scheduler.Wait(t, framework.WaitTimeout); code == 0 {
		t.Error("the scheduler ended with code 0")
	}
	output := scheduler.Output()
	for _, right := range lost {
		if !strings.Contains(output, "\n  "+right.String()) {
			t.Errorf("the output does not name the right to %s", right)
		}
	}
	if want := fmt.Sprintf("user %q lacks %d permission(s)", schedulerUser, len(lost)); !strings.Contains(output, want) {
		t.Errorf("the output does not contain %q", want)
	}
}

// rightsOf lists what a rule grants, right by right.
func rightsOf(rule rbacv1.PolicyRule, namespace string) []preflight.Right {
	objects := rule.ResourceNames
	if len(objects) == 0 {
		objects = []string{""}
	}
	var rights []preflight.Right
	for _, group := range rule.APIGroups {
		for _, path := range rule.Resources {
			resource, subresource, _ := strings.Cut(path, "/")
			for _, name := range objects {
				rights = append(rights, preflight.Expand(preflight.Right{
					Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
				}, rule.Verbs...)...)
			}
		}
	}
	return rights
}

// waitForAnswer waits until the authorizer, which learns of a changed role
// through a watch, answers for every one of rights as wanted.
func waitForAnswer(t *testing.T, c *framework.Cluster, rights []preflight.Right, want bool) {
	t.Helper()
	for _, right := range rights {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: schedulerUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource,
				Namespace: right.Namespace, Name: right.Name,
			},
		}}
		framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("the answer %v for %s", want, right), func() (bool, error) {
			answer, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				return false, err
			}
			return answer.Status.Allowed == want, nil
		})
	}
}

func setClusterRules(t *testing.T, c *framework.Cluster, rules []rbacv1.PolicyRule) {
	t.Helper()
	roles := c.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = rules
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		waitForAnswer(t, c, rightsOf(rule, ""), true)
	}
}

func setRules(t *testing.T, c *framework.Cluster, rules []rbacv1.PolicyRule) {
	t.Helper()
	roles := c.Client.RbacV1().Roles(names.Namespace)
	role, err := roles.Get(t.Context(), names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = rules
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		waitForAnswer(t, c, rightsOf(rule, names.Namespace), true)
	}
}

// title is a rule in a few words, as the name of a subtest.
func title(rule rbacv1.PolicyRule) string {
	return strings.Join(rule.Verbs, ",") + " " + strings.Join(rule.Resources, ",")
}
