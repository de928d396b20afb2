// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectlberth runs `kubectl berth devices` and `kubectl berth check` as people
// do: as a plugin of kubectl, on real API servers, with the rights that they have there.
package kubectlberth

import (
	"strings"
)

// words are the lines of a text, without what only aligns them.
func words(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}
