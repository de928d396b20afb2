// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package visible is how the plugin that keeps nodes from pods tells the other plugins, in a
// scheduling cycle, which nodes the pod's owner may know of. What a plugin writes into a
// status ends up in an event in the pod's namespace, so it must not depend on other nodes.
package visible

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Func reports whether the pod's owner may know of the node. It is safe for concurrent use.
type Func func(node *corev1.Node) bool

const stateKey fwk.StateKey = "VisibleNodes"

// Write leaves f in the state of a cycle. PreFilter calls it before that of the plugins that
// read it.
func Write(state fwk.CycleState, f Func) { state.Write(stateKey, f) }

// Read returns what was written, or a Func that reports true for every node.
func Read(state fwk.CycleState) Func {
	if data, err := state.Read(stateKey); err == nil {
		if f, ok := data.(Func); ok {
			return f
		}
	}
	return func(*corev1.Node) bool { return true }
}

// Clone returns the same function: it does not change.
func (f Func) Clone() fwk.StateData { return f }
