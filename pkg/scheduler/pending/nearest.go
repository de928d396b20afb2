// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"maps"
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

// measures returns what Berth's plugins of the profile find missing for the pod, by plugin.
func (e *Explainer) measures(profile string, pod *corev1.Pod) map[string]shortfall.Measure {
	measures := map[string]shortfall.Measure{}
	for _, plugin := range e.Measuring[profile] {
		if found := plugin.NearMiss(pod); found != nil {
			measures[plugin.Name()] = found
		}
	}
	return measures
}

// nearest finds the nearest node of a failed attempt.
type nearest struct {
	*message
	explainer *Explainer
	snapshot  fwk.NodeInfoLister
}

// newNearest returns nil where no node is near: nothing that a node lacks keeps the pod
// Pending, or the profile has no plugin that measures nodes.
func (e *Explainer) newNearest(fw framework.Framework, m *message) *nearest {
	if len(e.Measuring[m.profile]) == 0 || m.refused != "" || m.elsewhere || m.waitedOnPermit || m.afterFilter || m.fit.Diagnosis.NodeToStatus.Len() == 0 {
		return nil
	}
	m.ranking = shortfall.NewRanking(m.pod, e.measures(m.profile, m.pod))
	return &nearest{message: m, explainer: e, snapshot: fw.SnapshotSharedLister().NodeInfos()}
}

// text returns what is said of the nearest node, "" if there is none. before is what the
// condition of the pod says of it now, if the rest of its text is the same: it stays while
// it is true. If only numbers have changed it stays as a rule, too.
func (n *nearest) text(before string) string {
	if before != "" {
		name, _, _ := strings.Cut(strings.TrimPrefix(before, nearestPrefix), ",")
		now := n.describe(name)
		if now == before || alikeButNumbers(now, before) && !n.explainer.renewals.TryAccept() {
			return before
		}
	}
	return n.describe(n.find())
}

// find returns the node at the least distance; of equal ones the first by name.
func (n *nearest) find() string {
	best, least := "", shortfall.Distance{Rank: shortfall.Hidden}
	n.fit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		info, err := n.snapshot.Get(name)
		if err != nil {
			return
		}
		verdict := verdictOf(status)
		if n.ranking.AtLeast(info.Node(), &verdict) > least.Rank {
			return
		}
		d := n.ranking.Distance(info, verdict)
		if c := cmp.Or(d.Compare(least), cmp.Compare(name, best)); !d.IsHidden() && (best == "" || c < 0) {
			best, least = name, d
		}
	})
	return best
}

func verdictOf(status *fwk.Status) shortfall.Verdict {
	return shortfall.Verdict{Plugin: status.Plugin(), Reasons: status.Reasons(), Resolvable: status.Code() == fwk.Unschedulable}
}

// describe says what the node lacks: "" if it rejects the pod no more, or must not be named.
func (n *nearest) describe(name string) string {
	info, err := n.snapshot.Get(name)
	if err != nil || name == "" {
		return ""
	}
	status := n.fit.Diagnosis.NodeToStatus.Get(name)
	if !status.IsRejected() || n.ranking.Distance(info, verdictOf(status)).IsHidden() {
		return ""
	}
	measures := n.ranking.Measures
	var lacks []string
	switch {
	case status.Plugin() == names.NodeResourcesFit:
		for _, shortage := range shortfall.Shortages(n.pod, status.Reasons(), info) {
			lacks = append(lacks, shortage.String())
		}
	case measures[status.Plugin()] == nil:
		for _, reason := range n.reasonsOf(n.explainer.nodes, name, status, nil) {
			lacks = append(lacks, relative(reason))
		}
	}
	for _, plugin := range slices.Sorted(maps.Keys(measures)) {
		if text := measures[plugin].Describe(info); text != "" {
			lacks = append(lacks, text)
		} else if plugin == status.Plugin() {
			// Pods that are nominated to run there stood in the way.
			lacks = append(lacks, "what is free there is reserved for a pod of higher priority")
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
