// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// sampleManifest is the shop that the demo brings along.
var sampleManifest = filepath.Join(framework.Root(), "hack", "demo", "sample", "shop.yaml")

const (
	// luck is by how much two contenders who prefer the same may differ in a few
	// orders: both draw among nodes of equal score, and what is drawn first decides
	// about later pods. Single runs of one contender were 0.2 apart.
	luck = 0.25
	// worth is how much more Berth keeps near than stock without a preference, at
	// least: it was 0.28 and more in every case.
	worth = 0.15
)

// TestCallShare has contenders place applications whose calls are known. At full size
// (BERTH_LONG=1) there are more orders. best is the best share of calls within a node that
// any placement has, computed once by branch and bound (commit 8095ce0, optimum_test.go).
func TestCallShare(t *testing.T) { //nolint:tparallel // its parts share a cluster
	c := start(t)
	orders, shopOrders := 2, 1
	if framework.Long() {
		orders, shopOrders = 5, 2
	}
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.StartBerthScheduler(t, colocationProfile, framework.SchedulerOptions{})
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}

	// Each pool of nodes is used by one application at a time.
	t.Run("large", func(t *testing.T) {
		t.Parallel()
		t.Run("Online Boutique", func(t *testing.T) {
			boutique := readApplication(t, "boutique", framework.Data(t, datasets.OnlineBoutique), 3)
			requireScarce(t, boutique, large)
			check(t, compete(t, c, boutique, large, nodes.Items, orders), 0.850)
		})
		t.Run("the sample shop", func(t *testing.T) {
			check(t, compete(t, c, readApplication(t, "shop", sampleManifest, 3), large, nodes.Items, shopOrders), 0.957)
		})
	})
	six := readApplication(t, "six", filepath.Join("testdata", "small.yaml"), 2)
	t.Run("six services", func(t *testing.T) {
		t.Parallel()
		// In one order, that of the manifest, in which callers come first.
		measured := compete(t, c, six, small, nodes.Items, 1)
		check(t, measured, 1)
		if got := measured.mean(berth, nodePrefer); got < 0.95 {
			t.Errorf("within a node, of Berth: %.3f of the calls stay near, and all of them could", got)
		}
	})
	// Where no node has room for all, a scheduler that places one pod after the other
	// cannot know for which pod to keep the room.
	t.Run("six services, no node with room for all", func(t *testing.T) {
		t.Parallel()
		check(t, compete(t, c, six, tight, nodes.Items, 3), 0.945)
	})
}

// requireScarce fails unless the pool is as full as it is to be, and none of its
// zones has room for the whole application.
func requireScarce(t *testing.T, a application, p pool) {
	t.Helper()
	wanted := int64(0)
	for i := range a.deployments {
		wanted += int64(a.replicas) * milliCPU(&a.deployments[i])
	}
	byZone, free := p.total()
	if capacity := nodeMilliCPU * int64(len(p.nodes())); free*100 != capacity*(100-takenPercent) {
		t.Errorf("%d of %d thousandths of a CPU are free, want %d %%", free, capacity, 100-takenPercent)
	}
	for zone, free := range byZone {
		if free >= wanted {
			t.Errorf("zone %s has room for the whole of %s: %d free, %d wanted", zone, a.name, free, wanted)
		}
	}
}

// compete has every contender place the application, in as many orders, and returns
// what came of it.
func compete(t *testing.T, c *framework.Cluster, a application, p pool, nodes []corev1.Node, orders int) results {
	t.Helper()
	var scenes []*scene
	for _, contender := range contenders {
		scenes = append(scenes, newScene(t, c, a, p, contender))
	}
	measured := results{}
	for order := range orders {
		for _, s := range scenes {
			pods := s.place(t, c, order)
			measured[s.contender.name] = append(measured[s.contender.name], s.measure(t, nodes, pods))
			if order == 0 && s.contender.name == stock {
				s.compareWithHints(t, c, nodes, pods)
			}
			s.clear(t, c)
		}
	}
	return measured
}

// check holds Berth to what Colocation is for.
func check(t *testing.T, measured results, best float64) {
	t.Helper()
	if got := measured.mean(berth, zonePrefer); got < 0.95 {
		t.Errorf("within a zone, of Berth: %.3f of the calls stay near, want 0.95", got)
	}
	got := measured.mean(berth, nodePrefer)
	if want := measured.mean(stockAffinity, nodePrefer); got < want-luck {
		t.Errorf("within a node, of Berth: %.3f of the calls stay near, of stock with affinity %.3f", got, want)
	}
	if want := measured.mean(stock, nodePrefer); got < want+worth {
		t.Errorf("within a node, of Berth: %.3f of the calls stay near, of stock without a preference %.3f", got, want)
	}
	for name := range measured {
		for _, s := range measured[name] {
			if got := nodePrefer(s); got > best+1e-9 {
				t.Errorf("within a node, of %s: %.3f of the calls stay near, more than the best of all, %.3f", name, got, best)
			}
		}
	}
}
