// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestMissingRightOfColocationIsNamed: without the role of its component the
// scheduler with Colocation does not start, and says why; with it, it gets ready.
func TestMissingRightOfColocationIsNamed(t *testing.T) {
	c := framework.Start(t, framework.Options{})
	install.Apply(t, c, "overlays/colocation")
	const name = "berth-scheduler-colocation"
	role, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForAnswer(t, c, rightsOf(role.Rules[0], ""), true)
	install.Start(t, c).WaitReady(t)

	c.Kubectl(t, "delete", "clusterrolebinding", name)
	checkNamed(t, c, rightsOf(role.Rules[0], ""))
}
