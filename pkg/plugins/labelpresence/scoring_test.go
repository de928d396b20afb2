// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestScore(t *testing.T) {
	prefer := func(label string, presence bool, weight int32) config.LabelPresencePreference {
		return config.LabelPresencePreference{Label: label, Presence: &presence, Weight: weight}
	}
	nodes := []*corev1.Node{
		makeNode("plain", nil),
		makeNode("a", map[string]string{"a": ""}),
		makeNode("ab", map[string]string{"a": "x", "b": "y"}),
	}
	tests := []struct {
		name        string
		preferences []config.LabelPresencePreference
		want        map[string]int64
	}{
		{
			name: "no preference, no score",
			want: map[string]int64{},
		},
		{
			name:        "presence preferred",
			preferences: []config.LabelPresencePreference{prefer("a", true, 1)},
			want:        map[string]int64{"plain": 0, "a": 100, "ab": 100},
		},
		{
			name:        "absence preferred",
			preferences: []config.LabelPresencePreference{prefer("b", false, 100)},
			want:        map[string]int64{"plain": 100, "a": 100, "ab": 0},
		},
		{
			name:        "weights are shares of the whole",
			preferences: []config.LabelPresencePreference{prefer("a", true, 30), prefer("b", true, 10)},
			want:        map[string]int64{"plain": 0, "a": 75, "ab": 100},
		},
		{
			name:        "shares are rounded down",
			preferences: []config.LabelPresencePreference{prefer("a", true, 2), prefer("b", true, 1)},
			want:        map[string]int64{"plain": 0, "a": 66, "ab": 100},
		},
		{
			// Nodes that differ in a small preference alone do not differ by 100.
			name:        "scores are absolute",
			preferences: []config.LabelPresencePreference{prefer("nowhere", false, 99), prefer("b", true, 1)},
			want:        map[string]int64{"plain": 99, "a": 99, "ab": 100},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "a")}, Preferences: tt.preferences}
			profile := startProfile(t, args, schedtest.Options{Nodes: nodes})
			got := profile.Scores(t.Context(), t, st.MakePod().Name("p").Obj())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected scores (-want,+got):\n%s", diff)
			}
		})
	}
}

// Preferences alone refuse nothing.
func TestPreferencesDoNotFilter(t *testing.T) {
	args := &config.LabelPresenceArgs{Preferences: []config.LabelPresencePreference{{Label: "a", Presence: new(true), Weight: 1}}}
	profile := startProfile(t, args, schedtest.Options{Nodes: []*corev1.Node{makeNode("n", nil)}})
	if !profile.Skips(t.Context(), t, st.MakePod().Name("p").Obj()) {
		t.Error("want PreFilter to skip the pod")
	}
}

func TestManyPreferencesStayInRange(t *testing.T) {
	var args config.LabelPresenceArgs
	for i := range 1000 {
		args.Preferences = append(args.Preferences, config.LabelPresencePreference{
			Label: "a" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)), Presence: new(false), Weight: 100,
		})
	}
	profile := startProfile(t, &args, schedtest.Options{Nodes: []*corev1.Node{makeNode("n", nil)}})
	if got := profile.Scores(t.Context(), t, st.MakePod().Name("p").Obj())["n"]; got != fwk.MaxScore {
		t.Errorf("want %d, got %d", fwk.MaxScore, got)
	}
}
