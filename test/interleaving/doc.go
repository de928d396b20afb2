// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interleaving executes GPUDevice in every order of events that a small cluster allows.
package interleaving
