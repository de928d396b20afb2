// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

var dryRun = []string{metav1.DryRunAll}

// tenantsAreAssigned: who may write namespaces and nodes may not decide whose
// they are. That takes a right of its own, for all tenants or for some.
func tenantsAreAssigned(t *testing.T, c *framework.Cluster) {
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"writer": {
			{
				APIGroups: []string{""}, Verbs: []string{"create", "update", "patch"},
				Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize", "nodes", "nodes/status"},
			},
		},
		"assign-b": {{APIGroups: []string{names.Domain}, Resources: []string{"tenants"}, ResourceNames: []string{"b"}, Verbs: []string{"assign"}}},
	} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	clients := map[string]kubernetes.Interface{}
	for user, roles := range map[string][]string{
		"nobody": {"writer"}, "of-b": {"writer", "assign-b"}, "of-all": {"writer", "berth-tenant-assigner"},
	} {
		for _, role := range roles {
			bindRoleEverywhere(t, c, user, role)
		}
		clients[user] = framework.ClientFor(t, c.UserKubeconfig(t, user))
	}

	createNamespace := func(labels map[string]string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: labels}}, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	labelNamespace := func(name, value string, subresources ...string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, client kubernetes.Interface) error {
			patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %s}}}`, names.TenantLabel, value)
			_, err := client.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun}, subresources...)
			return err
		}
	}
	patchNode := func(name, patch string, subresources ...string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun}, subresources...)
			return err
		}
	}
	labelNode := func(name, value string, subresources ...string) func(context.Context, kubernetes.Interface) error {
		return patchNode(name, fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, names.TenantNodeLabel, value), subresources...)
	}
	createNode := func(n corev1.Node) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.CoreV1().Nodes().Create(ctx, &n, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	onlyTainted := node("new", "b")
	delete(onlyTainted.Labels, names.TenantNodeLabel)
	finalize := func(ctx context.Context, client kubernetes.Interface) error {
		ns, err := c.Client.CoreV1().Namespaces().Get(ctx, "no-tenant", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ns.Labels[names.TenantLabel] = "b"
		_, err = client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}

	everybody := []string{"nobody", "of-b", "of-all"}
	tests := []struct {
		name    string
		write   func(context.Context, kubernetes.Interface) error
		allowed []string
	}{
		{"a namespace without a tenant is created", createNamespace(nil), everybody},
		{"a namespace of b is created", createNamespace(map[string]string{names.TenantLabel: "b"}), []string{"of-b", "of-all"}},
		{"a namespace of the tenant without a name is created", createNamespace(map[string]string{names.TenantLabel: ""}), []string{"of-all"}},
		{"a namespace is given to b", labelNamespace("no-tenant", `"b"`), []string{"of-b", "of-all"}},
		{"a namespace is given to a", labelNamespace("no-tenant", `"a"`), []string{"of-all"}},
		{"a namespace goes from a to b", labelNamespace("team-a", `"b"`), []string{"of-all"}},
		{"a namespace is taken from a", labelNamespace("team-a", "null"), []string{"of-all"}},
		{"a namespace is given to b by its status", labelNamespace("no-tenant", `"b"`, "status"), []string{"of-b", "of-all"}},
		{"a namespace is given to b by its finalizers", finalize, []string{"of-b", "of-all"}},
		{"a namespace keeps its tenant", labelNamespace("team-a", `"a"`), everybody},
		{"a node is given to b", labelNode("shared", `"b"`), []string{"of-b", "of-all"}},
		{"a node is given to b by its status", labelNode("shared", `"b"`, "status"), []string{"of-b", "of-all"}},
		{"a node goes from b to a", labelNode("b1", `"a"`), []string{"of-all"}},
		{"a node is taken from b", labelNode("b1", "null"), []string{"of-b", "of-all"}},
		{"a node loses its taint", patchNode("b1", `{"spec": {"taints": null}}`), []string{"of-b", "of-all"}},
		{"a node loses its taints of all effects", patchNode("b3", `{"spec": {"taints": null}}`), []string{"of-b", "of-all"}},
		{
			"a node's taint becomes a wish",
			patchNode("b1", fmt.Sprintf(`{"spec": {"taints": [{"key": %q, "value": "b", "effect": "PreferNoSchedule"}]}}`, names.TenantLabel)),
			[]string{"of-b", "of-all"},
		},
		{
			"a node gets a second taint",
			patchNode("b1", fmt.Sprintf(`{"spec": {"taints": [{"key": %q, "value": "b", "effect": "NoSchedule"}, {"key": "x", "effect": "NoSchedule"}]}}`, names.TenantLabel)),
			everybody,
		},
		{"a node gets the taint", patchNode("shared", fmt.Sprintf(`{"spec": {"taints": [{"key": %q, "value": "b", "effect": "NoSchedule"}]}}`, names.TenantLabel)), everybody},
		{"a node gets another label", patchNode("b1", `{"metadata": {"labels": {"x": "y"}}}`), everybody},
		{"a node of b is created", createNode(node("new", "b")), []string{"of-b", "of-all"}},
		{"a node is created with the taint alone", createNode(onlyTainted), everybody},
	}
	// The roles and the policies take effect with a delay.
	for _, user := range everybody {
		for _, tt := range []int{1, 3, 10, 14} {
			framework.WaitForCondition(t, framework.WaitTimeout, "the rights of "+user+" and the policies", func() (bool, error) {
				err := tests[tt].write(t.Context(), clients[user])
				if user == "nobody" {
					return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), err
				}
				return err == nil, err
			})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, user := range everybody {
				err := tt.write(t.Context(), clients[user])
				allowed := false
				for _, name := range tt.allowed {
					allowed = allowed || name == user
				}
				switch {
				case allowed && err != nil:
					t.Errorf("%s: want it let in, got %v", user, err)
				case !allowed && err == nil:
					t.Errorf("%s: want it refused, but it was let in", user)
				case !allowed && (!strings.Contains(err.Error(), user+" must not") || !strings.Contains(err.Error(), "berth-tenant-assigner")):
					t.Errorf("%s: want a refusal that names the user and the role, got %v", user, err)
				}
			}
		})
	}
}
