// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package output is how results reach people and disks: files that appear as a
// whole or not at all, JSON that is the same bytes for the same value, and text
// whose cells can break neither a table nor a terminal.
package output
