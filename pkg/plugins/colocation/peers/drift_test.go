// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestDrift: what the index was not told of is drift, and what it miscounts, until it is
// told.
func TestDrift(t *testing.T) {
	x := newShop()
	for _, name := range []string{"p", "q", "r"} {
		x.ApplyPod(nil, makePod(name, 1, "n0"))
	}
	x.ApplyPod(nil, makePod("waits", 1, ""))
	x.Lookup("shop", "shop", "backend", corev1.LabelHostname)
	x.Reserve(makePod("waits", 1, ""), "n1")
	want := func(what string, want int) {
		t.Helper()
		if got := x.Drift(); got != want {
			t.Errorf("%s: drift %d, want %d", what, got, want)
		}
	}
	want("told of everything", 0)

	store := x.kinds["pod"]
	moved := makePod("p", 2, "n2")
	for _, err := range []error{store.Update(moved), store.Delete(makePod("q", 1, "n0")), store.Add(makePod("new", 1, "n0"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want("not told of a pod that came anew, one that is gone and one that came", 3)
	for _, name := range []string{"p", "q", "new"} {
		x.SyncPod("shop", name)
	}
	want("told of them", 0)

	heartbeat := changed(moved, func(p *corev1.Pod) { p.Status.Message = "is of no use to peers" })
	if err := store.Update(heartbeat); err != nil {
		t.Fatal(err)
	}
	want("not told of what does not matter", 0)

	for g := range x.groups {
		g.placed["n0"]++
		g.placed["n2"]--
	}
	want("two counts that are wrong", 2)
}
