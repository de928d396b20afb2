// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzDecode has anything decoded: it is refused, or can be written out.
func FuzzDecode(f *testing.F) {
	content, err := os.ReadFile(filepath.Join(folder, "smoke.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(smallest))
	f.Add([]byte(head + "spec: {nodes: [null], pods: [null], applications: [null], existing: [null]}"))
	f.Add([]byte(head + "spec: {clientQPS: .nan, seed: 9223372036854775807, rounds: 1e3, roundTimeout: null}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		w, errs := decode(content)
		if w == nil && len(errs) == 0 {
			t.Fatal("There is neither a workload nor an error")
		}
		if len(errs) > 0 || pods(&w.Spec) > 1000 {
			return
		}
		for _, format := range RequestFormats() {
			plan, err := w.Plan(format)
			if err != nil {
				continue // existing pods that do not fit
			}
			if got := len(plan.Arrivals); got != pods(&w.Spec) {
				t.Errorf("%d pods arrive, want %d", got, pods(&w.Spec))
			}
		}
	})
}

// pods is how many pods arrive.
func pods(spec *Spec) int {
	total := 0
	for _, count := range counts(spec) {
		total += count
	}
	for i := range spec.Applications {
		for j := range spec.Applications[i].Services {
			total += *spec.Applications[i].Copies * *spec.Applications[i].Services[j].Replicas
		}
	}
	return total
}
