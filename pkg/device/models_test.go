// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"path"
	"strings"
	"testing"
)

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
			if err != nil {
				t.Fatal(err)
			}
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
