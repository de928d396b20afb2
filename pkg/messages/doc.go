// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package messages is what every text for a user needs: it keeps a text within what the
// API takes (an event with a longer note is refused, and so never seen), and tells a name
// with a typo from another name.
package messages
