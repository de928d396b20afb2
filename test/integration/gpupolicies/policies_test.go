// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// testPools: a shared node stays in its pool, whichever subresource says otherwise, and goes
// to another one while it is not shared.
func testPools(t *testing.T, c *framework.Cluster) {
	c.CreateNode(t, gpuNode("pooled"))
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	patch := func(label, value, subresource string, options metav1.PatchOptions) error {
		content := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, label, value)
		_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "pooled", types.MergePatchType, []byte(content), options, subresources(subresource)...)
		return err
	}
	refused := []string{"berth-gpu-pools", "while the node shares its devices"}
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy berth-gpu-pools", func() (bool, error) {
		err := patch(names.GPUPoolLabel, "batch", "", dry)
		return apierrors.IsForbidden(err), err
	})
	for _, subresource := range []string{"", "status"} {
		framework.CheckDenied(t, patch(names.GPUPoolLabel, "batch", subresource, dry), refused)
		framework.CheckDenied(t, patch("example.com/other", "x", subresource, dry), nil)
	}
	for _, subresource := range []string{"", "status"} {
		framework.CheckDenied(t, patch(names.GPUSharingLabel, "false", subresource, metav1.PatchOptions{}), nil)
		framework.CheckDenied(t, patch(names.GPUPoolLabel, "batch"+subresource, subresource, metav1.PatchOptions{}), nil)
		framework.CheckDenied(t, patch(names.GPUSharingLabel, "true", subresource, metav1.PatchOptions{}), nil)
	}
	c.Kubectl(t, "delete", "node", "pooled")
}

// TestPolicies asks one API server, without a scheduler, what it lets in.
func TestPolicies(t *testing.T) {
	c := start(t, func(c *framework.Cluster) {
		c.CreatePod(t, sharePod("team", "early", "500"))
		c.CreatePod(t, sharePod("team", "untouched", "500"))
		if _, err := debug(t, c, "early", "old"); err != nil {
			t.Fatal(err)
		}
		beforeEffects(t, c)
	})
	for _, name := range []string{"berth-gpu-devices", "berth-gpu-records", "berth-gpu-quota", "berth-gpu-pools"} {
		policy, err := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if checked := policy.Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 {
			t.Errorf("%s: the API server finds fault with %v", name, checked.ExpressionWarnings)
		}
	}
	t.Run("injection", func(t *testing.T) { testInjection(t, c) })
	t.Run("cost", func(t *testing.T) { testCost(t, c) })
	t.Run("debug containers", func(t *testing.T) { testDebugContainers(t, c) })
	t.Run("variables", func(t *testing.T) { testVariables(t, c) })
	t.Run("tolerations added later", func(t *testing.T) { testTolerationsAddedLater(t, c) })
	t.Run("records", func(t *testing.T) { testRecords(t, c) })
	t.Run("pools", func(t *testing.T) { testPools(t, c) })
	t.Run("quota", func(t *testing.T) { testQuota(t, c) })
	t.Run("samples", func(t *testing.T) { testSamples(t, c) })
	// It adds the policies of tenancy.
	t.Run("effects", func(t *testing.T) { testEffects(t, c) })
	// The last, because it takes the mutation away.
	t.Run("without the mutation", func(t *testing.T) { testWithoutMutation(t, c) })
}
