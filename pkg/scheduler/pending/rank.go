// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// Verdict is why a plugin rejects a node.
type Verdict struct {
	// Plugin is the plugin's name.
	Plugin string
	// Reasons are the plugin's.
	Reasons []string
	// Resolvable is whether evicting pods could help, in the plugin's opinion.
	Resolvable bool
}

// Rank returns how far a node is by the verdict of a plugin that does not measure nodes
// itself (shortfall.Plugin), and how much is missing there. The message of a failed attempt
// and an explanation rank nodes by it.
func Rank(pod *corev1.Pod, node fwk.NodeInfo, v Verdict) (rank int, gap float64) {
	if v.Plugin == names.NodeResourcesFit {
		return shortfall.Distance(shortfall.Shortages(pod, v.Reasons, node))
	}
	return rejection(v.Plugin, v.Resolvable, func() bool {
		required := requirementsOf(pod)
		return required.metBy(node.Node())
	}), 0
}

// rejection is Rank of any plugin but NodeResourcesFit. wanted reports whether the node is
// one of those that the pod asks for.
func rejection(plugin string, resolvable bool, wanted func() bool) int {
	switch {
	case plugin == names.NodeUnschedulable:
		return shortfall.Cordoned
	case plugin == names.NodeAffinity || plugin == names.NodeName:
		return shortfall.Unlike
	case resolvable:
		return shortfall.Apart
	case plugin == names.TaintToleration && wanted():
		return shortfall.Closed
	}
	return shortfall.Other
}
