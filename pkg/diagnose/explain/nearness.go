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

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// details return the cause of the verdicts of plugins that do not measure nodes themselves,
// "" if there is no more to say.
var details = map[string]func(*situation, engine.Verdict, fwk.NodeInfo) string{
	names.NodeResourcesFit:  detailResources,
	names.TaintToleration:   detailTaints,
	names.NodeAffinity:      detailAffinity,
	names.NodePorts:         detailPorts,
	names.InterPodAffinity:  detailPodAffinity,
	names.DynamicResources:  (*situation).detailClaims,
	deviceclaims.Name:       (*situation).detailClaims,
	names.NodeUnschedulable: nil, // cordoned is all that there is to say
}

func detailResources(s *situation, v engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, shortage := range shortfall.Shortages(s.pod, v.Reasons, n) {
		texts = append(texts, shortage.String())
	}
	return strings.Join(texts, ", ")
}

func detailTaints(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var taints []string
	for _, taint := range shortfall.UntoleratedTaints(s.pod, n.Node()) {
		taints = append(taints, taint.ToString())
	}
	return strings.Join(taints, " and ")
}

// rank sorts the nodes that cannot take the pod, the nearest first, as the message of a
// failed attempt ranks them.
func (s *situation) rank(d *engine.Diagnosis) {
	s.refusals, s.total, s.nodes, s.visible = slices.Concat(d.Gates, d.Refusals), len(d.Nodes), nil, nil
	s.ranking = shortfall.NewRanking(s.pod, d.Measures)
	publishers := s.publishers()
	for _, n := range d.Nodes {
		facts := nodeFacts{info: n.Node, verdicts: s.cordonOnce(&n)}
		facts.distance = s.ranking.Distance(n.Node, facts.verdicts...)
		if facts.lacksDevices() && !publishers.Has(n.Node.Node().Name) {
			facts.distance.Rank += shortfall.Lacks // nodes with devices of a driver are nearer
		}
		if !facts.hidden() {
			s.visible = append(s.visible, n.Node)
		}
		if len(n.Verdicts) == 0 && len(s.refusals) == 0 {
			continue
		}
		facts.verdicts = append(s.refused(n.Node), facts.verdicts...)
		s.nodes = append(s.nodes, facts)
	}
	slices.SortStableFunc(s.nodes, func(a, b nodeFacts) int {
		return cmp.Or(a.distance.Compare(b.distance), cmp.Compare(a.node().Name, b.node().Name))
	})
}

// cordonOnce are the verdicts on a node without the second one on its cordon, which sets a
// taint as well.
func (s *situation) cordonOnce(n *engine.NodeDiagnosis) []engine.Verdict {
	if !n.Node.Node().Spec.Unschedulable || len(shortfall.UntoleratedTaints(s.pod, n.Node.Node())) > 0 {
		return n.Verdicts
	}
	return slices.DeleteFunc(slices.Clone(n.Verdicts), func(v engine.Verdict) bool { return v.Plugin == names.TaintToleration })
}

// refused returns what a plugin that rejected the pod before it looked at nodes finds missing
// on this one.
func (s *situation) refused(n fwk.NodeInfo) []engine.Verdict {
	var verdicts []engine.Verdict
	for _, refusal := range s.refusals {
		measure := s.ranking.Measures[refusal.Plugin]
		if measure == nil {
			continue
		}
		if rank, _ := measure.Distance(n); rank > 0 && rank < shortfall.Hidden {
			verdicts = append(verdicts, engine.Verdict{Plugin: refusal.Plugin, Reasons: []string{reasonOf(measure.Describe(n))}})
		}
	}
	return verdicts
}

// reasonOf makes what is said of one node a reason as plugins write them.
func reasonOf(text string) string {
	if clause, ok := strings.CutPrefix(text, "which "); ok {
		return "node(s) " + clause
	}
	return text
}

// hidden reports whether the owner of the pod must not learn of the node.
func (n *nodeFacts) hidden() bool { return n.distance.IsHidden() }

// maxNames is how many nodes of a group are named.
const maxNames = 5

// groups returns the nodes by cause, the nearest first, without those that only a refusal
// keeps the pod from. Hidden nodes have no names.
func (s *situation) groups() []Group {
	var groups []Group
	index := map[string]int{}
	for i := range s.nodes {
		n := &s.nodes[i]
		if len(n.verdicts) == 0 {
			continue
		}
		key := n.key()
		if n.hidden() {
			key = "hidden"
		}
		at, ok := index[key]
		if !ok {
			at = len(groups)
			index[key] = at
			groups = append(groups, Group{Rank: n.distance.Rank, Verdicts: s.verdicts(n)})
		}
		g := &groups[at]
		g.Count++
		if len(g.Names) < maxNames && !n.hidden() {
			g.Names = append(g.Names, n.node().Name)
		}
	}
	for i := range groups {
		groups[i].Text = groups[i].text()
	}
	return groups
}

// verdicts returns those of a node with their causes; for a hidden node, only those of the
// plugins that hide it.
func (s *situation) verdicts(n *nodeFacts) []Verdict {
	verdicts := make([]Verdict, 0, len(n.verdicts))
	for _, v := range n.verdicts {
		told := Verdict{Plugin: v.Plugin, Reason: strings.Join(v.Reasons, ", "), Resolvable: v.Resolvable}
		measure := s.ranking.Measures[v.Plugin]
		switch {
		case n.hidden():
			if measure == nil {
				continue
			}
			if rank, _ := measure.Distance(n.info); rank < shortfall.Hidden {
				continue
			}
		case v.Plugin == gpudevice.Name && measure != nil:
			told.Detail = s.detailDevices(measure, n.info)
		case measure == nil && details[v.Plugin] != nil:
			told.Detail = details[v.Plugin](s, v, n.info)
		}
		if told.Detail == told.Reason {
			told.Detail = ""
		}
		verdicts = append(verdicts, told)
	}
	return verdicts
}

// clause says what keeps the pod away, in the words of the reason, and in the grammar for so
// many nodes.
func (v *Verdict) clause(nodes int) string {
	is := "is"
	if nodes > 1 {
		is = "are"
	}
	text, ofNodes := strings.CutPrefix(v.Reason, "node(s) ")
	switch {
	case v.Plugin == names.NodeUnschedulable:
		return " " + is + " cordoned"
	case v.Plugin == names.TaintToleration:
		return " " + map[string]string{"is": "has", "are": "have"}[is] + " a taint that the pod does not tolerate"
	case !ofNodes:
		return ": " + text
	case nodes == 1:
		text = strings.NewReplacer(" their ", " its ", ", and take ", ", and takes ").Replace(text)
		if rest, plural := strings.CutPrefix(text, "were "); plural {
			text = "was " + rest
		}
	}
	return " " + text
}

// clauses says all that keeps the pod from so many nodes, with the cause on the nearest.
func (g *Group) clauses(nodes int, detailed bool) string {
	var out strings.Builder
	for i := range g.Verdicts {
		v := &g.Verdicts[i]
		clause := v.clause(nodes)
		if i > 0 {
			out.WriteString("; and")
			clause = strings.Replace(clause, ": ", " ", 1)
		}
		out.WriteString(clause)
		if detailed && v.Detail != "" {
			fmt.Fprintf(&out, ": %s", v.Detail)
		}
	}
	return out.String()
}

// text says why the nodes of the group cannot take the pod.
func (g *Group) text() string {
	who := output.Count(g.Count, "node")
	if len(g.Names) == 0 {
		return who + g.clauses(g.Count, false)
	}
	if g.Count == 1 {
		return "node " + g.Names[0] + g.clauses(1, true)
	}
	return fmt.Sprintf("%s%s (nearest %s)", who, g.clauses(g.Count, false), strings.TrimPrefix(g.nearest(), "node "))
}

// nearest says why the nearest node of the group cannot take the pod.
func (g *Group) nearest() string {
	if len(g.Names) == 0 {
		return g.Text
	}
	return "node " + g.Names[0] + g.clauses(1, true)
}
