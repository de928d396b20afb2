// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// VisibleNodes reports whether the pod's owner may know of the node. The plugin that keeps
// nodes from pods leaves it in the cycle for the others: what a plugin writes into a status
// ends up in an event in the pod's namespace, so it must not depend on other nodes. It is
// safe for concurrent use.
type VisibleNodes func(node *corev1.Node) bool

const visibleKey fwk.StateKey = "VisibleNodes"

// WriteVisible leaves f in the state of a cycle. PreFilter calls it before that of the plugins
// that read it.
func WriteVisible(state fwk.CycleState, f VisibleNodes) { state.Write(visibleKey, f) }

// ReadVisible returns what was written, or a function that reports true for every node.
func ReadVisible(state fwk.CycleState) VisibleNodes {
	if data, err := state.Read(visibleKey); err == nil {
		if f, ok := data.(VisibleNodes); ok {
			return f
		}
	}
	return func(*corev1.Node) bool { return true }
}

// Clone returns the same function: it does not change.
func (f VisibleNodes) Clone() fwk.StateData { return f }
