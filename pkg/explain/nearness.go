// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/nearmiss"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// reader understands what one plugin says.
type reader struct {
	// rank returns how far the node is by this verdict, and gap how much is missing, in
	// relation to what is asked for.
	rank func(s *situation, v engine.Verdict, n fwk.NodeInfo) (rank int, gap float64)
	// detail returns what is behind the verdict, "" if there is no more to say.
	detail func(s *situation, v engine.Verdict, n fwk.NodeInfo) string
}

// ranked is a rank without a gap.
func ranked(rank int) func(*situation, engine.Verdict, fwk.NodeInfo) (int, float64) {
	return func(*situation, engine.Verdict, fwk.NodeInfo) (int, float64) { return rank, 0 }
}

func nothing(*situation, engine.Verdict, fwk.NodeInfo) string { return "" }

// readers are by plugin. What a plugin that is not here says stands for itself.
var readers = map[string]reader{
	gpudevice.Name:          {rankDevices, detailDevices},
	labelpresence.Name:      {ranked(nearmiss.Other), nothing},
	colocation.Name:         {ranked(nearmiss.Other), nothing},
	names.NodeResourcesFit:  {rankResources, detailResources},
	names.TaintToleration:   {rankTaints, detailTaints},
	names.NodeUnschedulable: {rankCordon, detailCordon},
	names.NodeAffinity:      {rankAffinity, detailAffinity},
	names.NodeName:          {ranked(nearmiss.Lacks), nothing},
	names.NodePorts:         {ranked(nearmiss.Busy), detailPorts},
	names.InterPodAffinity:  {ranked(nearmiss.Apart), detailPodAffinity},
	names.PodTopologySpread: {ranked(nearmiss.Apart), nothing},
}

// measure sorts the nodes that cannot take the pod, the nearest first.
func (s *situation) measure(d *engine.Diagnosis) {
	s.refusals, s.total, s.nodes = slices.Concat(d.Gates, d.Refusals), len(d.Nodes), nil
	for _, n := range d.Nodes {
		if len(n.Verdicts) == 0 && len(s.refusals) == 0 {
			continue
		}
		facts := nodeFacts{info: n.Node, verdicts: n.Verdicts}
		if s.refusal(gpudevice.Name) != "" {
			// Of single nodes it says no more: those with devices are nearer all the same.
			facts.rank, facts.gap = rankDevices(s, engine.Verdict{}, n.Node)
		}
		for _, v := range n.Verdicts {
			rank, gap := nearmiss.Other, 0.0
			if v.Resolvable {
				rank = nearmiss.Apart
			}
			if r, ok := readers[v.Plugin]; ok {
				rank, gap = r.rank(s, v, n.Node)
			}
			facts.rank += rank
			facts.gap += gap
		}
		s.nodes = append(s.nodes, facts)
	}
	slices.SortStableFunc(s.nodes, func(a, b nodeFacts) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.gap, b.gap), cmp.Compare(a.node().Name, b.node().Name))
	})
}

// maxNames is how many nodes of a group are named.
const maxNames = 5

// groups are the nodes by why they cannot take the pod, the nearest first. Nodes that
// only a refusal keeps the pod from are none.
func (s *situation) groups() []Group {
	var groups []Group
	index := map[string]int{}
	for i := range s.nodes {
		n := &s.nodes[i]
		if len(n.verdicts) == 0 {
			continue
		}
		at, ok := index[n.key()]
		if !ok {
			at = len(groups)
			index[n.key()] = at
			groups = append(groups, Group{Rank: n.rank, Verdicts: s.verdicts(n)})
		}
		g := &groups[at]
		g.Count++
		if len(g.Names) < maxNames {
			g.Names = append(g.Names, n.node().Name)
		}
	}
	for i := range groups {
		groups[i].Text = groups[i].text()
	}
	return groups
}

// verdicts are those of a node with what is behind them.
func (s *situation) verdicts(n *nodeFacts) []Verdict {
	verdicts := make([]Verdict, 0, len(n.verdicts))
	for _, v := range n.verdicts {
		told := Verdict{Plugin: v.Plugin, Reason: strings.Join(v.Reasons, ", "), Resolvable: v.Resolvable}
		if r, ok := readers[v.Plugin]; ok {
			told.Detail = r.detail(s, v, n.info)
		}
		verdicts = append(verdicts, told)
	}
	return verdicts
}

// text says why the nodes of the group cannot take the pod.
func (g *Group) text() string {
	var reasons, details []string
	for _, v := range g.Verdicts {
		reasons = append(reasons, strings.TrimPrefix(v.Reason, "node(s) "))
		if v.Detail != "" {
			details = append(details, v.Detail)
		}
	}
	who := output.Count(g.Count, "node")
	if !strings.HasPrefix(g.Verdicts[0].Reason, "node(s) ") {
		who += ":"
	}
	text := strings.Join(reasons, "; and ")
	where := g.Names[0]
	if g.Count > 1 {
		where = "nearest " + where
	}
	if len(details) == 0 {
		return fmt.Sprintf("%s %s (%s)", who, text, where)
	}
	return fmt.Sprintf("%s %s; %s: %s", who, text, where, strings.Join(details, "; "))
}
