// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

func aliveStays(t *testing.T, c *framework.Cluster) {
	e := prepare(t, c, environment.Options{})
	fill(t, e, 2, 2)
	before := settled(t, c)

	removed, err := environment.Clean(t.Context(), c.Config, environment.CleanOptions{})
	if err != nil || len(removed.Runs) > 0 || len(removed.Alive) != 1 || removed.Alive[0].ID != e.RunID() || removed.Alive[0].Holder == "" {
		t.Errorf("Clean() beside a run that is alive = %+v, %v, want nothing removed and the run told", removed, err)
	}
	compare(t, c, before, "after Clean() beside a run that is alive")

	removed, err = environment.Clean(t.Context(), c.Config, environment.CleanOptions{RunID: e.RunID(), Force: true})
	if err != nil || len(removed.Runs) != 1 || len(removed.Alive) != 0 {
		t.Errorf("Clean() by force = %+v, %v, want the run removed", removed, err)
	}
	closeEnvironment(t, e) // finds nothing any more

	// A run that has ended: it is waited for until its Lease is no longer valid.
	patch := []byte(`{"metadata":{"labels":{"berth.dev/bench":"ffffffff"}}}`)
	c.Kubectl(t, "create", "namespace", "berth-bench-ffffffff")
	if _, err := c.Client.CoreV1().Namespaces().Patch(t.Context(), "berth-bench-ffffffff", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Apply(t, `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: alive, namespace: berth-bench-ffffffff}
spec: {holderIdentity: elsewhere, leaseDurationSeconds: 1}
`)
	removed, err = environment.Clean(t.Context(), c.Config, environment.CleanOptions{})
	if err != nil || len(removed.Runs) != 1 || removed.Runs[0] != "ffffffff" {
		t.Errorf("Clean() after a run that does not renew its Lease = %+v, %v, want run ffffffff removed", removed, err)
	}
}
