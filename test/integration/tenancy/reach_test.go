// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// labelsAreOutOfReach: tenancy is worth as much as the two labels that it
// reads. Neither the administrator of a tenant's namespace nor a kubelet can
// change them.
func labelsAreOutOfReach(t *testing.T, c *framework.Cluster) {
	bindRole(t, c, "team-a", "namespace-admin", "admin")
	tenant := framework.ClientFor(t, c.UserKubeconfig(t, "namespace-admin"))
	kubelet := framework.ClientFor(t, c.UserKubeconfig(t, "system:node:shared", "system:nodes"))
	relabel := func(key string) []byte {
		return fmt.Appendf(nil, `{"metadata": {"labels": {%q: "b"}}}`, key)
	}

	// That the binding is in force, so that what follows is refused to somebody
	// who has rights.
	framework.WaitForCondition(t, framework.WaitTimeout, "the tenant's rights", func() (bool, error) {
		_, err := tenant.CoreV1().Pods("team-a").Create(t.Context(), newPod("team-a", "p"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, err
	})

	t.Run("a tenant and its namespace", func(t *testing.T) {
		_, err := tenant.CoreV1().Namespaces().Patch(t.Context(), "team-a", types.MergePatchType, relabel(names.TenantLabel), metav1.PatchOptions{})
		framework.CheckDenied(t, err, []string{`cannot patch resource "namespaces"`})
	})
	t.Run("a tenant and a node", func(t *testing.T) {
		_, err := tenant.CoreV1().Nodes().Patch(t.Context(), "b1", types.MergePatchType, relabel(names.TenantNodeLabel), metav1.PatchOptions{})
		framework.CheckDenied(t, err, []string{`cannot patch resource "nodes"`})
	})
	t.Run("a kubelet and its node", func(t *testing.T) {
		_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), "shared", types.StrategicMergePatchType, relabel(names.TenantNodeLabel), metav1.PatchOptions{})
		framework.CheckDenied(t, err, []string{"is not allowed to modify labels", names.TenantNodeLabel})
	})
	t.Run("a kubelet and another label of its node", func(t *testing.T) {
		_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), "shared", types.StrategicMergePatchType, relabel("example.com/any"), metav1.PatchOptions{})
		framework.CheckDenied(t, err, nil)
	})
}
