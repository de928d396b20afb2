// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestPolicies asks one API server, without a scheduler, what it lets in.
func TestPolicies(t *testing.T) {
	c := start(t, func(c *framework.Cluster) {
		c.CreatePod(t, sharePod("team", "early", "500"))
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
	t.Run("quota", func(t *testing.T) { testQuota(t, c) })
	t.Run("samples", func(t *testing.T) { testSamples(t, c) })
	// It adds the policies of tenancy.
	t.Run("effects", func(t *testing.T) { testEffects(t, c) })
	// The last, because it takes the mutation away.
	t.Run("without the mutation", func(t *testing.T) { testWithoutMutation(t, c) })
}
