// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
)

// replayMIG has pods with MIG claims come in random order: one for a 4g.40gb and three for a 1g.10gb for each GPU, which
// together would fill all of them. It returns which part of that fits, in percent of the compute slices.
func replayMIG(tb testing.TB, profile string, nodes, gpus int, seed uint64) float64 {
	tb.Helper()
	var objects []runtime.Object
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		objects = append(objects, makeNode(name, 1000))
		for _, slice := range draslices.DynamicMIG.Slices(name, gpus, draslices.A100()) {
			objects = append(objects, slice)
		}
	}
	for _, class := range draslices.DynamicMIG.Classes() {
		objects = append(objects, class)
	}
	small, large := makeTemplate("small", draslices.MIGClass, profileOf("1g.10gb")), makeTemplate("large", draslices.MIGClass, profileOf("4g.40gb"))
	config := loadProfile(tb, profile)
	e := newEngine(tb, Options{Config: config, SchedulerName: config.Profiles[0].SchedulerName, Seed: seed, Parallelism: 2}, makeCluster(tb, append(objects, small, large)...))
	var pods []string
	for range nodes * gpus {
		pods = append(pods, large.Name, small.Name, small.Name, small.Name)
	}
	r := rand.New(rand.NewPCG(seed, 8)) //nolint:gosec // a test
	r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	used := 0
	for i, template := range pods {
		pod := claiming(makePod(fmt.Sprintf("p%d", i)), template)
		pod.Spec.SchedulerName = config.Profiles[0].SchedulerName
		if schedule(tb, e, pod).Node != "" {
			used += map[string]int{small.Name: 1, large.Name: 4}[template]
		}
	}
	return 100 * float64(used) / float64(7*nodes*gpus)
}

// TestMIGOnline compares DeviceClaims with stock's first fit where GPUs are divided as pods come. What is placed
// first must leave room for what comes later.
func TestMIGOnline(t *testing.T) {
	var ours, stock float64
	const seeds = 5
	for seed := range uint64(seeds) {
		a, b := replayMIG(t, claimsProfile, 8, 4, seed), replayMIG(t, stockProfile, 8, 4, seed)
		t.Logf("seed %d: %.1f %% fit, with stock %.1f %%", seed, a, b)
		ours, stock = ours+a/seeds, stock+b/seeds
	}
	if ours < stock+10 {
		t.Errorf("%.1f %% fit, with stock %.1f %%: want at least 10 more", ours, stock)
	}
}
