// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compareModels compares what lists accept, not what they remember.
var compareModels = cmp.Comparer(func(a, b Models) bool { return a.String() == b.String() })

func TestModelsMatch(t *testing.T) {
	tests := []struct {
		list, model string
		want        bool
	}{
		{list: "Tesla-T4", model: "tesla-t4", want: true},
		{list: "tesla-t4", model: "tesla-t40", want: false},
		{list: "NVIDIA-A100*", model: "nvidia-a100-sxm4-80gb", want: true},
		{list: "NVIDIA-A100*", model: "nvidia-a100", want: true},
		{list: "NVIDIA-A100*", model: "nvidia-a10", want: false},
		{list: "*80GB", model: "nvidia-a100-sxm4-80gb", want: true},
		{list: "*A100*80GB*", model: "nvidia-a100-sxm4-80gb", want: true},
		{list: "*A100*40GB*", model: "nvidia-a100-sxm4-80gb", want: false},
		{list: "*a*a*b", model: "aaab", want: true},
		{list: "*a*a*b", model: "aaaa", want: false},
		{list: "A10, H100*", model: "nvidia-h100", want: false},
		{list: "A10, *H100*", model: "nvidia-h100", want: true},
		{list: "*", model: "anything", want: true},
		{list: "*", model: "", want: false},
	}
	for _, tt := range tests {
		t.Run(tt.list+" "+tt.model, func(t *testing.T) {
			models, err := ParseModels(tt.list)
			must(t, err)
			if got := models.Match(tt.model); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
	if all := (Models{}); !all.Any() || !all.Match("") || !all.Match("x") {
		t.Error("no constraint refuses a node")
	}
}

// FuzzModels compares with path.Match, which agrees on patterns without its other
// special characters and names without slashes.
func FuzzModels(f *testing.F) {
	f.Add("NVIDIA-A100*,Tesla-T4", "nvidia-a100-80gb")
	f.Add("*a*b*c*", "xxaxxbxxc")
	f.Add("**", "a")
	f.Fuzz(func(t *testing.T, list, model string) {
		models, err := ParseModels(list)
		if err != nil {
			return
		}
		model = strings.ToLower(model)
		if model == "" || strings.Contains(model, "/") {
			return
		}
		want := false
		for part := range strings.SplitSeq(strings.ToLower(list), ",") {
			matched, err := path.Match(strings.TrimSpace(part), model)
			if err != nil {
				t.Fatalf("pattern %q was accepted: %v", part, err)
			}
			want = want || matched
		}
		if got := models.Match(model); got != want {
			t.Errorf("%q matches %q: %t, want %t", list, model, got, want)
		}
	})
}

// TestModelsAreBounded asks for the bounds of what a stranger writes: a pattern is no longer
// than a label value, which a model is, and a list no longer than its patterns.
func TestModelsAreBounded(t *testing.T) {
	label := strings.Repeat("a", maxModelLength)
	tests := map[string]struct {
		list string
		// want is what the list is read as, and wantErr a part of the error.
		want, wantErr string
	}{
		"a pattern as long as a label value": {list: label, want: label},
		"a longer pattern":                   {list: label + "a", wantErr: "has a pattern of 64 characters: a model has at most 63"},
		"stars":                              {list: "a**b***", want: "a*b*"},
		"as many patterns as there may be":   {list: strings.TrimSuffix(strings.Repeat(label+", ", maxModels), ", "), want: strings.TrimSuffix(strings.Repeat(label+",", maxModels), ",")},
		"one more":                           {list: strings.TrimSuffix(strings.Repeat("a,", maxModels+1), ","), wantErr: "has 33 patterns: list at most 32"},
		"the largest annotation":             {list: strings.Repeat("*", 250<<10), wantErr: "has 256000 characters: list at most 32 patterns of at most 63 characters each"},
		"spaces":                             {list: strings.Repeat(" ", 250<<10) + "a", wantErr: "has 256001 characters"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			models, err := ParseModels(tt.list)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("want an error with %q, got %v", tt.wantErr, err)
				}
				return
			}
			if err != nil || models.String() != tt.want {
				t.Errorf("got %q and %v, want %q", models, err, tt.want)
			}
		})
	}
}

// TestModelsMatchOncePerModel counts what a list remembers: one answer for each model, however
// often it is asked for, and no more than there may be.
func TestModelsMatchOncePerModel(t *testing.T) {
	models, err := ParseModels("nvidia-a*,*h100")
	must(t, err)
	for range 2 {
		for i := range 2 * maxKnownModels {
			model := "nvidia-" + strings.Repeat("a", i%2) + strings.Repeat("b", i/2)
			if got, want := models.Match(model), i%2 == 1; got != want {
				t.Fatalf("%s: got %t, want %t", model, got, want)
			}
		}
	}
	if got := len(*models.list.known.Load()); got != maxKnownModels {
		t.Errorf("the answers for %d models are remembered, want %d", got, maxKnownModels)
	}
	if got := testing.AllocsPerRun(10, func() { models.Match("nvidia-a") }); got != 0 {
		t.Errorf("a model that was asked for before allocates %v times", got)
	}
}
