// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload reads the file that says what a benchmark runs, and writes it out
// as the objects to create.
package workload
