// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checker judges from API objects alone whether devices were given away
// as promised. It shares no code with what it judges: it reads labels, resources
// and annotations in its own way and does its own sums. A test of this package
// sees to it that it stays so.
//
// Check looks at one moment: a list of nodes and one of pods. History looks at
// every version of every pod that a watch delivered. Both return what is wrong,
// one Problem each; nothing is left to the reader.
package checker
