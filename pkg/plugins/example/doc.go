// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package example is the smallest plugin that is a good one, to copy. No registry
// has it and no binary runs it; its tests, and the registry's conformance test, do.
//
// It refuses nodes with the label [ClosedLabel]. Invariant: a node's labels alone
// decide, so no pod, no event of another kind and no order of events changes a
// verdict.
//
// It takes no arguments. A plugin with arguments adds what CONTRIBUTING.md lists
// under "Adding a plugin"; pkg/plugins/labelpresence is one to look at.
package example
