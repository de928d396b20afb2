// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"berth-gpu", "berth-gpu", 0},
		{"berth-gppu", "berth-gpu", 1},
		{"berth-gp", "berth-gpu", 1},
		{"berth-gpx", "berth-gpu", 1},
		{"berht-gpu", "berth-gpu", 1},
		{"breht-gpu", "berth-gpu", 2},
		{"berth-scheduler", "berth-gpu", 3},
		{"another", "berth-gpu", 3},
		{"gpu", "gpv", 3},
		{"gpu", "gpu", 0},
		{strings.Repeat("x", 65), strings.Repeat("x", 64), 3},
	}
	for _, tt := range tests {
		if got := Distance(tt.a, tt.b, Typo); got != tt.want {
			t.Errorf("%q and %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := Distance(tt.b, tt.a, Typo); got != tt.want {
			t.Errorf("%q and %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"colocate-with", "colocate-topology-keys", "gpu-model"}
	for name, want := range map[string]string{
		"colocat-with": "colocate-with",
		"gpu-modell":   "gpu-model",
		"gpu-min":      "",
		"":             "",
	} {
		if got := Nearest(name, candidates); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
