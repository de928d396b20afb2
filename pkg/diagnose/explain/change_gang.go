// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/berth-scheduler/berth/pkg/output"
)

// proposeGang proposes a gang of as many members as exist, or fit, and to create the missing
// ones.
func proposeGang(s *situation, add func(*Change)) {
	g := s.gang
	if g == nil || !g.Found {
		return
	}
	if missing := g.Needed - g.Members; missing > 0 {
		change := podChange("members", 1.5, nil, "create the missing %s of gang %s (tried with copies of %s)", output.Count(missing, "member"), g.Name, podText(s.pods[len(s.pods)-1]))
		change.extra, change.gang = missing, g.Needed
		add(change)
	}
	if fewer := min(g.Members, g.Bound+g.Fit); fewer > 0 && fewer < g.Needed {
		field := "spec.minMember"
		if g.native {
			field = "spec.schedulingPolicy.gang.minCount"
		}
		change := podChange("minMember", 3.8, nil, "let gang %s start with %s: set %s to %d in its PodGroup", g.Name, output.Count(fewer, "member"), field, fewer)
		change.gang = fewer
		add(change)
	}
}

// proposeReplicas proposes as many pods as fit.
func proposeReplicas(s *situation, add func(*Change)) {
	if s.gang == nil && s.placed > 0 && s.placed < len(s.pods) {
		change := podChange("replicas", 2.5, nil, "ask for %s instead of %d", output.Count(s.placed, "pod"), len(s.pods))
		change.count = s.placed
		add(change)
	}
}
