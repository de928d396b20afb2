// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/messages"
)

const (
	// nearestPrefix begins what is said of the node that came nearest, and nearestEnd
	// ends it.
	nearestPrefix = "nearest: node "
	nearestEnd    = "."
	// maxNearest bounds it, in bytes.
	maxNearest = 300
)

// A message whose numbers are out of date is written anew for so many pods a minute in
// all: with thousands of Pending pods the writes stay those of stock, and with a few the
// numbers are always right.
const renewalsPerMinute = 6

func newRenewals() flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(renewalsPerMinute/60.0, renewalsPerMinute, clock.RealClock{})
}

// afterFilter are the plugins of a profile that may reject a pod in its binding cycle,
// where the snapshot must not be read.
func afterFilter(plugins *schedconfig.Plugins) map[string]bool {
	after := map[string]bool{}
	for _, set := range []schedconfig.PluginSet{plugins.Permit, plugins.PreBind} {
		for _, plugin := range set.Enabled {
			after[plugin.Name] = true
		}
	}
	return after
}

// nearest measures the nodes of a failed attempt.
type nearest struct {
	*message
	explainer *Explainer
	snapshot  fwk.NodeInfoLister
	measures  []measure
}

// measure is what one of Berth's plugins finds missing.
type measure struct {
	shortfall.Measure
	plugin string
}

// newNearest returns nil where no node is near: nothing that a node lacks keeps the pod
// waiting, or the profile has no plugin that measures.
func (e *Explainer) newNearest(fw framework.Framework, m *message) *nearest {
	plugins := e.Measuring[m.profile]
	if len(plugins) == 0 || m.refused != "" || m.elsewhere || m.waitedOnPermit || m.afterFilter || m.fit.Diagnosis.NodeToStatus.Len() == 0 {
		return nil
	}
	n := &nearest{message: m, explainer: e, snapshot: fw.SnapshotSharedLister().NodeInfos()}
	for _, plugin := range plugins {
		if found := plugin.NearMiss(m.pod); found != nil {
			n.measures = append(n.measures, measure{found, plugin.Name()})
		}
	}
	return n
}

// nearest returns what is said of the node that came nearest, "" if there is none. before
// is what the condition of the pod says of it now, if the rest of its text is the same: it
// stays while it is true. If numbers alone have changed it stays as a rule, too.
func (n *nearest) text(ctx context.Context, before string) string {
	if before != "" {
		name, _, _ := strings.Cut(strings.TrimPrefix(before, nearestPrefix), ",")
		now := n.describe(ctx, name)
		if now == before || alikeButNumbers(now, before) && !n.explainer.renewals.TryAccept() {
			return before
		}
	}
	return n.describe(ctx, n.find(ctx))
}

// find returns the node that is nearest: the least sum of ranks, then of gaps, then the
// name.
func (n *nearest) find(ctx context.Context) string {
	best, rank, gap := "", shortfall.Hidden, 0.0
	required := requirementsOf(n.pod)
	n.fit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		least := n.refusal(ctx, name, status, &required)
		if least > rank {
			return
		}
		info, err := n.snapshot.Get(name)
		if err != nil {
			return
		}
		r, g := n.distance(ctx, info, status, &required)
		if c := cmp.Or(cmp.Compare(r, rank), cmp.Compare(g, gap), cmp.Compare(name, best)); r < shortfall.Hidden && (best == "" || c < 0) {
			best, rank, gap = name, r, g
		}
	})
	return best
}

// measured reports whether the plugin measures nodes itself.
func (n *nearest) measured(plugin string) bool {
	return slices.ContainsFunc(n.measures, func(m measure) bool { return m.plugin == plugin })
}

// refusal returns the rank of a plugin that measures nothing itself. NodeResourcesFit is
// measured by what is free.
func (n *nearest) refusal(ctx context.Context, name string, status *fwk.Status, required *nodeRequirements) (rank int) {
	if n.measured(status.Plugin()) || status.Plugin() == names.NodeResourcesFit {
		return 0
	}
	return rejection(status.Plugin(), status.Code() == fwk.Unschedulable, func() bool {
		_, wanted := n.explainer.untoleratedTaint(ctx, name, n.pod, *required)
		return wanted
	})
}

// distance returns the sums over the plugin that rejected the node and Berth's, of which
// those behind it were not asked.
func (n *nearest) distance(ctx context.Context, info fwk.NodeInfo, status *fwk.Status, required *nodeRequirements) (rank int, gap float64) {
	rank = n.refusal(ctx, info.Node().Name, status, required)
	if status.Plugin() == names.NodeResourcesFit {
		rank, gap = shortfall.Distance(shortfall.Shortages(n.pod, status.Reasons(), info))
	}
	for _, m := range n.measures {
		r, g := m.Distance(info)
		rank, gap = rank+r, gap+g
	}
	return rank, gap
}

// describe says what the node lacks: "" if it rejects the pod no more, or is none to name.
func (n *nearest) describe(ctx context.Context, name string) string {
	info, err := n.snapshot.Get(name)
	if err != nil || name == "" {
		return ""
	}
	status := n.fit.Diagnosis.NodeToStatus.Get(name)
	if !status.IsRejected() {
		return ""
	}
	required := requirementsOf(n.pod)
	if rank, _ := n.distance(ctx, info, status, &required); rank >= shortfall.Hidden {
		return ""
	}
	var lacks []string
	switch {
	case status.Plugin() == names.NodeResourcesFit:
		for _, shortage := range shortfall.Shortages(n.pod, status.Reasons(), info) {
			lacks = append(lacks, shortage.String())
		}
	case !n.measured(status.Plugin()):
		for _, reason := range n.explainer.reasonsOf(ctx, name, n.pod, status, required, nil) {
			lacks = append(lacks, relative(reason))
		}
	}
	for _, m := range n.measures {
		if text := m.Describe(info); text != "" {
			lacks = append(lacks, text)
		} else if m.plugin == status.Plugin() {
			// What stood in the way were pods that are nominated to run there.
			lacks = append(lacks, "what is free there is kept for a pod of higher priority")
		}
	}
	text := nearestPrefix + name + ", " + strings.Join(lacks, "; ")
	return messages.CutTo(text, maxNearest-len(nearestEnd)) + nearestEnd
}

// relative makes a reason of many nodes a clause about one.
func relative(reason string) string {
	clause, ok := strings.CutPrefix(reason, "node(s) ")
	if !ok {
		return reason
	}
	return "which " + clause
}

// alikeButNumbers reports whether two texts differ in their numbers alone, with the unit
// behind them.
func alikeButNumbers(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	words := func(text string) []string {
		return slices.DeleteFunc(strings.Fields(text), func(word string) bool { return unicode.IsDigit(rune(word[0])) })
	}
	return slices.Equal(words(a), words(b))
}

// told returns what a condition says of the nearest node, if the text before and behind it
// is this; "" otherwise.
func told(pod *corev1.Pod, before, behind string) string {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled {
			continue
		}
		rest, ok := strings.CutPrefix(c.Message, before+" ")
		if !ok || !strings.HasPrefix(rest, nearestPrefix) {
			return ""
		}
		if behind != "" {
			if rest, ok = strings.CutSuffix(rest, " "+behind); !ok {
				return ""
			}
		}
		return rest
	}
	return ""
}
