// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestConcurrentUse lets every source of events, reservations and readers work at the
// same time. Run with -race it shows data races; without, that no View is caught
// between two states: the sum over its nodes and over a level that every node has
// is its total.
func TestConcurrentUse(t *testing.T) {
	x := newInformed()
	for i := range 10 {
		x.ApplyNode(nil, makeNode(i, "zone-0"))
	}
	x.ApplyService(nil, makeService("backend", map[string]string{"app": "backend"}))
	x.ApplyService(nil, makeService("listed", nil))

	const rounds = 2000
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	write := func(seed uint64, step func(rng *rand.Rand, i int)) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for i := range rounds {
				step(rng, i)
			}
		})
	}
	// Two sources tell of the same pods, one of them a little ahead.
	for source := range 2 {
		write(uint64(source), func(rng *rand.Rand, i int) {
			pending := makePod(fmt.Sprintf("p%d", i%50), i, "")
			x.ApplyPod(nil, pending)
			onNode := makePod(pending.Name, i, nodeName(rng.IntN(10)))
			onNode.ResourceVersion = versionNumber(2*i + 1)
			x.ApplyPod(pending, onNode)
			if rng.IntN(2) == 0 {
				x.ApplyPod(onNode, nil)
			}
		})
	}
	write(2, func(rng *rand.Rand, i int) {
		reserved := makePod(fmt.Sprintf("r%d", i%20), i, "")
		x.put("pod", nil, reserved)
		x.Reserve(reserved, nodeName(rng.IntN(10)))
		if rng.IntN(2) == 0 {
			x.Unreserve(reserved.UID)
		} else {
			x.ApplyPod(reserved, nil)
		}
	})
	write(3, func(rng *rand.Rand, i int) {
		updated := makeNode(rng.IntN(10), fmt.Sprintf("zone-%d", rng.IntN(3)))
		updated.ResourceVersion = versionNumber(i + 1)
		x.ApplyNode(nil, updated)
	})
	write(4, func(rng *rand.Rand, i int) {
		changed := makeService("backend", map[string]string{"app": "backend"})
		if rng.IntN(4) == 0 {
			changed.Spec.Selector["tier"] = "gold"
		}
		changed.ResourceVersion = versionNumber(i + 1)
		x.ApplyService(nil, changed)
	})
	write(5, func(rng *rand.Rand, i int) {
		listed := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		listed.Namespace, listed.Name, listed.ResourceVersion = "shop", "listed-1", versionNumber(i+1)
		listed.Labels = map[string]string{discoveryv1.LabelServiceName: "listed"}
		for range rng.IntN(5) {
			target := fmt.Sprintf("p%d", rng.IntN(50))
			listed.Endpoints = append(listed.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: target}})
		}
		x.ApplyEndpointSlice(nil, listed)
	})
	var looked atomic.Int64
	for reader := range 3 {
		name := []string{"backend", "listed", "backend"}[reader]
		readers.Go(func() {
			for !done.Load() {
				view, ok := x.Lookup("shop", "shop", name, corev1.LabelTopologyZone, corev1.LabelHostname)
				if !ok {
					t.Errorf("no Service %s", name)
					return
				}
				checkSums(t, view)
				view.IsPeer(makePod("p1", 1, ""))
				looked.Add(1)
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	t.Logf("%d views", looked.Load())
}

func checkSums(t *testing.T, view *View) {
	t.Helper()
	sum := func(numbers map[string]int) (sum int) {
		for _, n := range numbers {
			sum += n
		}
		return sum
	}
	byNode, byZone := sum(maps.Collect(view.Level(corev1.LabelHostname).All)), sum(maps.Collect(view.Level(corev1.LabelTopologyZone).All))
	if byNode != view.Total() || byZone != view.Total() {
		t.Errorf("%d peers, %d by node, %d by zone", view.Total(), byNode, byZone)
	}
}
