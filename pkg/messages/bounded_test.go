// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestCut(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name string
		text string
		want string
	}{
		{name: "empty"},
		{name: "short", text: "a note", want: "a note"},
		{name: "at the limit", text: x(Limit), want: x(Limit)},
		{name: "one byte more", text: x(Limit + 1), want: x(Limit-3) + "..."},
		{name: "a character that ends at the cut", text: x(Limit-5) + "é" + x(9), want: x(Limit-5) + "é..."},
		{name: "a character of two bytes across the cut", text: x(Limit-4) + "é" + x(9), want: x(Limit-4) + "..."},
		{name: "a character of four bytes across the cut", text: x(Limit-6) + "🚢" + x(9), want: x(Limit-6) + "..."},
		{name: "a character of three bytes that ends at the limit", text: x(Limit-3) + "…", want: x(Limit-3) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Cut(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("note (-want,+got):\n%s", diff)
			}
			if len(got) > Limit || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid UTF-8: %v", len(got), utf8.ValidString(got))
			}
		})
	}
}
