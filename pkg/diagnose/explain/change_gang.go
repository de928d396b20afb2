// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/output"
)

// proposeGang proposes a gang of as many members as exist, or fit, and to create the missing
// ones.
func proposeGang(s *situation) []*Change {
	g := s.gang
	if g == nil || !g.Found {
		return nil
	}
	var changes []*Change
	if missing := g.Needed - g.Members; missing > 0 {
		changes = append(changes, &Change{
			Who: OnPod, Kind: "members", cost: 1.5, extra: missing, gang: g.Needed,
			Text: fmt.Sprintf("create the missing %s of gang %s (tried with copies of %s)", output.Count(missing, "member"), g.Name, podText(s.pods[len(s.pods)-1])),
		})
	}
	if fewer := min(g.Members, g.Bound+g.Fit); fewer > 0 && fewer < g.Needed {
		field := "spec.minMember"
		if g.native {
			field = "spec.schedulingPolicy.gang.minCount"
		}
		changes = append(changes, &Change{
			Who: OnPod, Kind: "minMember", cost: 3.8, gang: fewer,
			Text: fmt.Sprintf("let gang %s start with %s: set %s to %d in its PodGroup", g.Name, output.Count(fewer, "member"), field, fewer),
		})
	}
	return changes
}

// proposeReplicas proposes as many pods as fit.
func proposeReplicas(s *situation) []*Change {
	if s.gang != nil || s.placed == 0 || s.placed >= len(s.pods) {
		return nil
	}
	return []*Change{{
		Who: OnPod, Kind: "replicas", cost: 2.5, count: s.placed,
		Text: fmt.Sprintf("ask for %s instead of %d", output.Count(s.placed, "pod"), len(s.pods)),
	}}
}
