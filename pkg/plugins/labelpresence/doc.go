// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labelpresence chooses nodes by the labels that they carry.
package labelpresence
