// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"fmt"
	"testing"


	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// namespaceCount is how many namespaces change their label: a scheduler that
// looked at a cache behind the event would miss some of them, not all.
const namespaceCount = 8

// changedLabelsTakeEffect: a pod that waits because of a label is tried again
// when the label changes. The deadline of every wait here is a minute, and the
// scheduler looks at everything anew only after five.
func changedLabelsTakeEffect(t *testing.T) {
	c, _ := start(t, untainted(node("a1", "a")))

	t.Run("namespaces", func(t *testing.T) {
		var namespaces []string
		for i := range namespaceCount {
			name := fmt.Sprintf("changing-%d", i)
			// Half of them had another tenant before, half had none.
			addNamespace(t, c, name, []string{"", "b"}[i%2])
			c.CreatePod(t, newPod(name, "waiting"))
			namespaces = append(namespaces, name)
		}
		for _, name := range namespaces {
			waitForRefusal(t, c, name, "waiting")
		}
		for _, name := range namespaces {
			c.Kubectl(t, "label", "--overwrite", "namespace", name, names.TenantLabel+"=a")
		}
		for _, name := range namespaces {
			c.WaitForPodScheduled(t, name, "waiting")
		}
	})

	t.Run("a tenant that loses its namespace gets no more nodes", func(t *testing.T) {
		c.Kubectl(t, "label", "namespace", "changing-0", names.TenantLabel+"-")
		// A pod that comes before the scheduler has heard of the change is placed by
		// what it knew; this event says that it has heard.
		c.WaitForEvent(t, "changing-0", "waiting", "TenancyViolation", "")
		c.CreatePod(t, newPod("changing-0", "late"))
		waitForRefusal(t, c, "changing-0", "late")
		// What ran there goes on.
		c.WaitForPodRunning(t, "changing-0", "waiting")
	})

	t.Run("a node changes its tenant", func(t *testing.T) {
		addNamespace(t, c, "team-b", "b")
		c.CreatePod(t, newPod("team-b", "waiting"))
		waitForRefusal(t, c, "team-b", "waiting")
		c.Kubectl(t, "label", "--overwrite", "node", "a1", names.TenantNodeLabel+"=b")
		c.WaitForPodScheduled(t, "team-b", "waiting")
		c.CreatePod(t, newPod("changing-1", "late"))
		waitForRefusal(t, c, "changing-1", "late")
	})

	t.Run("a node is given back", func(t *testing.T) {
		c.Kubectl(t, "label", "node", "a1", names.TenantNodeLabel+"-")
		// The pod whose namespace lost its tenant, which anybody's node suits.
		c.WaitForPodScheduled(t, "changing-0", "late")
	})
}
