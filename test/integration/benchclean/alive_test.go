// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/bench/ground"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

func aliveStays(t *testing.T, c *framework.Cluster) {
	g := prepare(t, c, ground.Options{})
	fill(t, g, 2, 2)
	before := settled(t, c)

	removed, err := ground.Clean(t.Context(), c.Config, ground.CleanOptions{})
	if err != nil || len(removed.Runs) > 0 || len(removed.Alive) != 1 || removed.Alive[0].ID != g.RunID() || removed.Alive[0].Holder == "" {
		t.Errorf("Clean() beside a run that is alive = %+v, %v, want nothing removed and the run told", removed, err)
	}
	compare(t, c, before, "after Clean() beside a run that is alive")

	removed, err = ground.Clean(t.Context(), c.Config, ground.CleanOptions{RunID: g.RunID(), Force: true})
	if err != nil || len(removed.Runs) != 1 || len(removed.Alive) != 0 || removed.Namespaces != 1 || removed.Nodes != 2 || removed.Pods < 4 || removed.Services != 2 {
		t.Errorf("Clean() by force = %+v, %v, want a namespace, 2 nodes, at least 4 pods and 2 Services", removed, err)
	}
	closeGround(t, g) // finds nothing any more

	// The Lease of a run on another machine, which cannot be seen to have ended: it is
	// waited for until the Lease is no longer valid.
	patch := []byte(`{"metadata":{"labels":{"berth.dev/bench":"ffffffff"}}}`)
	c.Kubectl(t, "create", "namespace", "berth-bench-ffffffff")
	if _, err := c.Client.CoreV1().Namespaces().Patch(t.Context(), "berth-bench-ffffffff", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Apply(t, `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: alive, namespace: berth-bench-ffffffff}
spec: {holderIdentity: elsewhere 1, leaseDurationSeconds: 1}
`)
	removed, err = ground.Clean(t.Context(), c.Config, ground.CleanOptions{})
	if err != nil || len(removed.Runs) != 1 || removed.Runs[0] != "ffffffff" {
		t.Errorf("Clean() after a run on another machine = %+v, %v, want run ffffffff removed", removed, err)
	}
}
