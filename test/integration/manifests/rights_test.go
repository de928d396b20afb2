// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

// TestMissingRightIsNamed takes all rules out of the shipped roles. The process must end, and
// name each right of the rules and no other. So it also shows that the roles grant nothing that
// the check does not know: with TestRolesSuffice, the two lists are the same.
func TestMissingRightIsNamed(t *testing.T) {
	c := framework.Start(t, framework.Options{})
	install.Apply(t, c, "base")
	ctx, rbac := t.Context(), c.Client.RbacV1()
	var lost []preflight.Right
	lose := func(rules []rbacv1.PolicyRule, namespace string) (kept []rbacv1.PolicyRule) {
		for _, rule := range rules {
			if slices.Contains(rule.Resources, "devicetaintrules") && compat.Release == "1.36" {
				kept = append(kept, rule) // asked for from Kubernetes 1.37 on
				continue
			}
			for _, right := range rightsOf(rule, namespace) {
				if slices.Contains(lost, right) {
					t.Errorf("two rules grant the right to %s", right)
				}
				lost = append(lost, right)
			}
		}
		return kept
	}
	clusterRole, err := rbac.ClusterRoles().Get(ctx, names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role, err := rbac.Roles(names.Namespace).Get(ctx, names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := rbac.Roles(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication-reader", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clusterRole.Rules, role.Rules = lose(clusterRole.Rules, ""), lose(role.Rules, names.Namespace)
	lose(reader.Rules[:1], metav1.NamespaceSystem)
	if _, err := rbac.ClusterRoles().Update(ctx, clusterRole, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.Roles(names.Namespace).Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "delete", "rolebinding", "-n", metav1.NamespaceSystem, "berth-scheduler-authentication-reader")
	checkNamed(t, c, lost)
}

// checkNamed waits until the authorizer denies every one of lost, runs the
// scheduler, and expects it to end and to name exactly lost.
func checkNamed(t *testing.T, c *framework.Cluster, lost []preflight.Right) {
	t.Helper()
	waitUntilDenied(t, c, lost)
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
	// Each of the checks at the start has a list of its own.
	named := 0
	for _, count := range regexp.MustCompile(fmt.Sprintf(`user %q lacks (\d+) permission\(s\)`, schedulerUser)).FindAllStringSubmatch(output, -1) {
		n, err := strconv.Atoi(count[1])
		if err != nil {
			t.Fatal(err)
		}
		named += n
	}
	if named != len(lost) {
		t.Errorf("the output names %d permissions, want %d", named, len(lost))
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

// waitUntilDenied waits until the authorizer, which learns of a changed role through a watch,
// denies every one of rights.
func waitUntilDenied(t *testing.T, c *framework.Cluster, rights []preflight.Right) {
	t.Helper()
	for _, right := range rights {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: schedulerUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource,
				Namespace: right.Namespace, Name: right.Name,
			},
		}}
		framework.WaitForCondition(t, framework.WaitTimeout, "the loss of the right to "+right.String(), func() (bool, error) {
			answer, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				return false, err
			}
			return !answer.Status.Allowed, nil
		})
	}
}
