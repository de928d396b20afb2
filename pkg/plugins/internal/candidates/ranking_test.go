// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package candidates

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestWriteAndRead writes as several plugins in a cycle, and as one in a dry run of it.
func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	state := framework.NewCycleState()
	if got := Read(state); got != nil || IsDryRun(state) {
		t.Fatalf("a new cycle has rankings %v, dry run %v", got, IsDryRun(state))
	}
	first := &Ranking{Scores: []int32{1, Unfit}}
	Write(state, "First", func() *Ranking { return first })
	Write(state, "Second", nil)

	run := NewDryRun(state)
	if !IsDryRun(run) || !IsDryRun(run.Clone()) || run.ShouldRecordPluginMetrics() {
		t.Errorf("a dry run is not told from a cycle: %v, its clone %v, metrics %v", IsDryRun(run), IsDryRun(run.Clone()), run.ShouldRecordPluginMetrics())
	}
	Write(run, "First", func() *Ranking { t.Error("computed in a dry run"); return nil })
	Write(run, "Third", nil)
	if got := Read(run); len(got) != 3 || got[2].Plugin != "Third" || got[2].Rank != nil || got[0].Rank() != first {
		t.Errorf("read %v in the dry run, want what its cycle has and Third's", got)
	}

	written := Read(state)
	if len(written) != 2 || written[0].Plugin != "First" || written[1].Plugin != "Second" || written[1].Rank != nil {
		t.Fatalf("read %v, want what First and Second wrote", written)
	}
	if got := written[0].Rank(); got != first {
		t.Errorf("First's ranking is %v, want %v", got, first)
	}
}
