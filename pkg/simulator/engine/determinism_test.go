// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSameSeedSameBytes runs the same pods with several numbers of goroutines.
// Nothing of what becomes of them may differ. The cluster is large enough for
// the profiles that score part of the nodes to do so.
func TestSameSeedSameBytes(t *testing.T) {
	const nodes, pods = 260, 200
	for _, profile := range []string{gpuProfile, stockProfile, "config/simulator/random.yaml"} {
		t.Run(profile, func(t *testing.T) {
			c := loadProfile(t, profile)
			run := func(seed uint64, parallelism int) string {
				e := newEngine(t, Options{Config: c, Seed: seed, Parallelism: parallelism}, makeVariedCluster(t, nodes))
				var b strings.Builder
				for _, pod := range makeVariedPods(pods, c.Profiles[0].SchedulerName) {
					r := schedule(t, e, pod)
					fmt.Fprintf(&b, "%s %q %q %d/%d %s\n", pod.Name, r.Node, assigned(r), r.Feasible, r.Evaluated, r.Message)
				}
				return b.String()
			}
			want := run(1, 1)
			for _, parallelism := range []int{2, 7} {
				if diff := cmp.Diff(want, run(1, parallelism)); diff != "" {
					t.Errorf("Another result with %d goroutines (-1,+%d):\n%s", parallelism, parallelism, diff)
				}
			}
			if run(2, 1) == want {
				t.Error("The seed has no influence: no tie was ever drawn")
			}
		})
	}
}

// TestTiesAreUniform draws among equal nodes many times.
func TestTiesAreUniform(t *testing.T) {
	const nodes, draws = 4, 400
	objects := make([]string, 0, nodes)
	for i := range nodes {
		objects = append(objects, fmt.Sprintf("n%d", i))
	}
	count := map[string]int{}
	for seed := range uint64(draws) {
		c := makeCluster(t, makeNode(objects[0], 4), makeNode(objects[1], 4), makeNode(objects[2], 4), makeNode(objects[3], 4))
		e, err := New(t.Context(), Options{Config: loadProfile(t, stockProfile), SchedulerName: "default-scheduler", Seed: seed}, c)
		if err != nil {
			t.Fatal(err)
		}
		r := schedule(t, e, makePod("p", "cpu", "1"))
		count[r.Node]++
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// 100 +- 4.6 standard deviations.
	for _, name := range objects {
		if n := count[name]; n < 60 || n > 140 {
			t.Errorf("%s was drawn %d times of %d", name, n, draws)
		}
	}
}
