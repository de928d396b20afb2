// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"strings"
	"testing"
)

// CheckDenied expects err to contain every one of want, or to be nil if there is
// none.
func CheckDenied(tb testing.TB, err error, want []string) {
	tb.Helper()
	if len(want) == 0 {
		if err != nil {
			tb.Errorf("want it admitted, got %v", err)
		}
		return
	}
	if err == nil {
		tb.Fatalf("want a denial that contains %q, but it was admitted", want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			tb.Errorf("want a denial that contains %q, got %v", text, err)
		}
	}
}
