// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package candidates

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// NarrowingPlugin is the name of the plugin NodeCandidates.
const NarrowingPlugin = "NodeCandidates"

// Narrows reports whether the profile of a plugin's handle can have the cycles narrowed of
// pods that a plugin ranks nodes for: whether NodeCandidates runs in it, and not all nodes are
// looked at (percentageOfNodesToScore: 100). It is to be asked when the profile is built, and
// not by a factory.
//
// Such pods must not be batched (SignPod): what kube-scheduler remembers of a cycle for
// the next equal pod would be the nodes that could win in this one, and others are
// better as soon as those have taken a pod.
func Narrows(handle fwk.Handle) bool {
	profile, ok := handle.(interface {
		ListPlugins() *schedconfig.Plugins
		PercentageOfNodesToScore() *int32
	})
	if !ok {
		return false
	}
	if percentage := profile.PercentageOfNodesToScore(); percentage != nil && *percentage >= 100 {
		return false
	}
	return slices.ContainsFunc(profile.ListPlugins().PreFilter.Enabled, func(p schedconfig.Plugin) bool { return p.Name == NarrowingPlugin })
}
