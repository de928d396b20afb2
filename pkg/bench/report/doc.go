// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds what a benchmark measured, and shows it: as a table, as
// report.json and as one self-contained report.html.
package report
