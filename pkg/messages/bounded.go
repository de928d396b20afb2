// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import "unicode/utf8"

// Limit is the greatest length of the note of an events.k8s.io Event, in bytes.
const Limit = 1024

// ellipsis ends a text that was cut.
const ellipsis = "..."

// Cut returns text if it is within Limit, and otherwise as much of its start as
// fits with an ellipsis behind it. It cuts between characters, never in one.
func Cut(text string) string { return CutTo(text, Limit) }

// CutTo is Cut for another limit, which must be longer than an ellipsis.
func CutTo(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
