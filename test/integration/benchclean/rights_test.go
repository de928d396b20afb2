// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"errors"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// grant gives the user these rights, each where it says, and returns how to take them
// away again. Those in the run's namespace, which does not exist yet, are given in all.
func grant(t *testing.T, c *framework.Cluster, user, namespace string, rights []preflight.Right) (*rest.Config, func()) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, right := range rights {
		resource := right.Resource
		if right.Subresource != "" {
			resource += "/" + right.Subresource
		}
		where := right.Namespace
		if where == namespace {
			where = ""
		}
		rules[where] = append(rules[where], rbacv1.PolicyRule{Verbs: []string{right.Verb}, APIGroups: []string{right.Group}, Resources: []string{resource}})
	}
	meta := metav1.ObjectMeta{Name: user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	rbac := c.Client.RbacV1()
	var undo []func() error
	do := func(_ any, err error, back func() error) {
		if err != nil {
			t.Fatal(err)
		}
		undo = append(undo, back)
	}
	for where, rules := range rules {
		if where == "" {
			role, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			do(role, err, func() error { return rbac.ClusterRoles().Delete(t.Context(), user, metav1.DeleteOptions{}) })
			binding, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			}, metav1.CreateOptions{})
			do(binding, err, func() error { return rbac.ClusterRoleBindings().Delete(t.Context(), user, metav1.DeleteOptions{}) })
			continue
		}
		role, err := rbac.Roles(where).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		do(role, err, func() error { return rbac.Roles(where).Delete(t.Context(), user, metav1.DeleteOptions{}) })
		binding, err := rbac.RoleBindings(where).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		}, metav1.CreateOptions{})
		do(binding, err, func() error { return rbac.RoleBindings(where).Delete(t.Context(), user, metav1.DeleteOptions{}) })
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.UserKubeconfig(t, user))
	if err != nil {
		t.Fatal(err)
	}
	return config, func() {
		for _, back := range undo {
			if err := back(); err != nil {
				t.Errorf("taking the rights back: %v", err)
			}
		}
	}
}

// exactRights shows that the rights which Prepare checks are all that a run needs.
func exactRights(t *testing.T, c *framework.Cluster) {
	id := environment.NewRunID()
	rights := environment.Rights("berth-bench-"+id, false)
	const user = "bencher"
	config, back := grant(t, c, user, "berth-bench-"+id, rights)
	defer back()
	framework.WaitForCondition(t, framework.WaitTimeout, "the rights to be known", func() (bool, error) {
		err := preflight.Check(t.Context(), framework.ClientFor(t, c.UserKubeconfig(t, user)), rights)
		return err == nil, err
	})
	e, err := environment.Prepare(t.Context(), config, environment.Options{RunID: id})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, e, 2, 2)
	if err := e.Probe(t.Context(), "default-scheduler"); err != nil {
		t.Errorf("Probe() = %v", err)
	}
	if err := e.Reset(t.Context()); err != nil {
		t.Errorf("Reset() = %v", err)
	}
	// Whoever may run a benchmark may clean up after it.
	for _, run := range []string{id, ""} {
		removed, err := environment.Clean(t.Context(), config, environment.CleanOptions{RunID: run})
		if err != nil || !slices.ContainsFunc(removed.Alive, func(alive environment.AliveRun) bool { return alive.ID == id }) {
			t.Errorf("Clean(%q) = %+v, %v, want run %s to be told as alive", run, removed, err, id)
		}
	}
	removed, err := environment.Clean(t.Context(), config, environment.CleanOptions{RunID: id, Force: true})
	if err != nil || len(removed.Runs) != 1 {
		t.Errorf("Clean() by force = %+v, %v, want the run removed", removed, err)
	}
	closeEnvironment(t, e)
}

// missingRights shows that every right that is missing is named before anything is
// created.
func missingRights(t *testing.T, c *framework.Cluster) {
	id := environment.NewRunID()
	all := environment.Rights("berth-bench-"+id, false)
	missing := func(right preflight.Right) bool {
		return right.Resource == "nodes" && right.Verb == "create" || right.Resource == "services" && right.Verb == "delete"
	}
	held := slices.DeleteFunc(slices.Clone(all), missing)
	if len(held) != len(all)-2 {
		t.Fatalf("of %d rights %d are left, want two fewer", len(all), len(held))
	}
	const user = "restricted-bencher"
	config, back := grant(t, c, user, "berth-bench-"+id, held)
	defer back()
	framework.WaitForCondition(t, framework.WaitTimeout, "the rights to be known", func() (bool, error) {
		err := preflight.Check(t.Context(), framework.ClientFor(t, c.UserKubeconfig(t, user)), held)
		return err == nil, err
	})
	_, err := environment.Prepare(t.Context(), config, environment.Options{RunID: id, Rights: []preflight.Right{{Verb: "get", Resource: "secrets"}}})
	wantError(t, err, `user "restricted-bencher" lacks 3 permission(s)`, "create nodes", `delete services in namespace "berth-bench-`+id, "get secrets", "leave out --kubeconfig")
	if _, ok := errors.AsType[*preflight.MissingRightsError](err); !ok {
		t.Errorf("the error is no MissingRightsError: %v", err)
	}
	if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), "berth-bench-"+id, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("looking for the namespace of a run that was refused: %v, want not found", err)
	}
}
