// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
)

//go:embed testdata/schedulers.yaml
var snapshot string

// TestSchedulers finds out who serves a name and with which profile, from the leases and
// ConfigMaps of a snapshot.
func TestSchedulers(t *testing.T) {
	// A snapshot is judged by the time of its newest lease, however old it is.
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, schedulerName string
		known, alive        bool
		lease, profile      string
		nearest, text       string
	}{
		{
			name: "a scheduler whose lease has run out", schedulerName: "berth-scheduler", known: true, lease: "berth-system/berth-scheduler",
			profile: "ConfigMap berth-system/berth-scheduler-config, berth-scheduler.yaml", text: "does not respond: its lease berth-system/berth-scheduler was last renewed 20s ago",
		},
		{
			name: "the cluster's own", schedulerName: "default-scheduler", known: true, alive: true, lease: "kube-system/kube-scheduler",
			profile: "kube-scheduler's defaults (the profile that it runs with was not seen: --config FILE)", text: "master_1f0a handles it",
		},
		{
			name: "a typo", schedulerName: "Berth-sheduler", nearest: "berth-scheduler",
			profile: "ConfigMap berth-system/berth-scheduler-config, berth-scheduler.yaml", text: `did you mean "berth-scheduler"?`,
		},
		{
			name: "nobody", schedulerName: "volcano",
			profile: "ConfigMap berth-system/berth-scheduler-config, berth-scheduler.yaml", text: `no scheduler handles "volcano" (known: berth-scheduler, default-scheduler)`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "snapshot.yaml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(snapshot, "SCHEDULER", tt.schedulerName)), 0o600); err != nil {
				t.Fatal(err)
			}
			inputs, err := Read(t.Context(), &Options{Namespace: "default", Pod: "pod", Snapshots: []string{file}, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			x, err := explain.Explain(t.Context(), inputs[0])
			if err != nil {
				t.Fatal(err)
			}
			got := x.Scheduler
			if got.Known != tt.known || got.Alive != tt.alive || got.Lease != tt.lease || got.Profile != tt.profile || got.Nearest != tt.nearest || !strings.Contains(got.Text, tt.text) {
				t.Errorf("want %+v\ngot %+v", tt, got)
			}
			if diff := cmp.Diff([]explain.PodGroup{{Namespace: "default", Name: "training", MinMember: 3}}, inputs[0].PodGroups); diff != "" {
				t.Errorf("PodGroups (-want,+got):\n%s", diff)
			}
		})
	}
}
