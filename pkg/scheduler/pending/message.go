// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	berthnames "github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// What upstream's PostFilter plugins answer for a pod that is none of their
// business. A text that upstream changes is shown again, and the test of the
// messages on a real scheduler fails.
var ignoredMessages = []string{
	"no new claims to deallocate", // DynamicResources, of a pod without claims
	"plugin disabled",             // DynamicResources
	"can not find pod group",      // Coscheduling, of a pod without a gang
}

// preemptionPrefix begins the answer of DefaultPreemption.
const preemptionPrefix = "preemption: "

// message is a failed attempt, read.
type message struct {
	profile string
	pod     *corev1.Pod
	// view is what the owner of the pod may know of, nil for all; fit is about that.
	view *shortfall.View
	fit  *framework.FitError
	// ranking says how far nodes are. newNearest adds the plugins' measures, which must not be
	// asked in a binding cycle.
	ranking *shortfall.Ranking
	// refused is what a PreFilter plugin said that refused the pod for all nodes.
	refused string
	// reasons are those of the nodes, one for each text.
	reasons []reason
	// taints are the nodes that only repel the pod: by the taint that it does not
	// tolerate, the nodes that it asks for otherwise. Empty if it asks for none.
	taints map[string]int
	// preemptible says that evicting pods could help on some node.
	preemptible bool
	// elsewhere says that nothing that a node has or lacks keeps the pod waiting, so that
	// no eviction helps.
	elsewhere bool
	// waitedOnPermit says that the pod had a node, and its gang did not.
	waitedOnPermit bool
	// afterFilter says that the pod had a node and was rejected there.
	afterFilter bool
}

// reason is a text and how many nodes have it.
type reason struct {
	text  string
	nodes int
	// order is how far the nodes got.
	order int
}

// read reads a failed attempt. It asks the lister for the nodes that repel the pod
// alone; all else was found out by the attempt.
func (e *Explainer) read(profile string, pod *corev1.Pod, fit *framework.FitError, view *shortfall.View) *message {
	m := &message{profile: profile, pod: pod, view: view, fit: fit, refused: fit.Diagnosis.PreFilterMsg, taints: map[string]int{}}
	m.ranking = shortfall.NewRanking(pod, nil)
	byText := map[string]*reason{}
	add := func(text string, order, nodes int) {
		if r, ok := byText[text]; ok {
			r.nodes += nodes
			return
		}
		byText[text] = &reason{text: text, nodes: nodes, order: order}
	}
	nodeToStatus := fit.Diagnosis.NodeToStatus
	// The one node may also be all that the pod's owner may know of.
	hadNode := fit.NumAllNodes == 1 && (view == nil || pod.Spec.NodeName != "")
	nodeToStatus.ForEachExplicitNode(func(name string, status *fwk.Status) {
		m.preemptible = m.preemptible || status.Code() == fwk.Unschedulable
		m.waitedOnPermit = m.waitedOnPermit || hadNode && e.Gangs != nil && status.Plugin() == e.Gangs.Plugin
		m.afterFilter = m.afterFilter || hadNode && e.afterFilter[profile][status.Plugin()]
		for _, text := range m.reasonsOf(e.nodes, name, status, m.taints) {
			add(text, e.order[profile][status.Plugin()], 1)
		}
	})
	m.readAbsent(fit, add)
	if view != nil && m.refused != "" {
		m.preemptible = false // preemption tried all nodes, others' too
	}
	for _, r := range byText {
		m.reasons = append(m.reasons, *r)
	}
	slices.SortFunc(m.reasons, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.text, b.text))
	})
	return m
}

// readAbsent reads what the attempt says of the nodes that it does not name.
func (m *message) readAbsent(fit *framework.FitError, add func(text string, order, nodes int)) {
	absent := fit.NumAllNodes - fit.Diagnosis.NodeToStatus.Len()
	if absent <= 0 {
		return
	}
	status := fit.Diagnosis.NodeToStatus.AbsentNodesStatus()
	m.preemptible = m.preemptible || status.Code() == fwk.Unschedulable
	for _, text := range status.Reasons() {
		add(text, -1, absent)
	}
}

// reasonsOf returns why a node was rejected, with the taint by its name. taints, if not
// nil, counts those of nodes that the pod asks for otherwise.
func (m *message) reasonsOf(nodes corelisters.NodeLister, name string, status *fwk.Status, taints map[string]int) []string {
	if status.Plugin() != names.TaintToleration {
		return status.Reasons()
	}
	node, err := nodes.Get(name)
	if err != nil {
		return status.Reasons()
	}
	untolerated := shortfall.UntoleratedTaints(m.pod, node)
	if len(untolerated) == 0 {
		return status.Reasons() // the taint was removed since
	}
	taint := untolerated[0].ToString()
	if taints != nil && m.ranking.Wants(node) {
		taints[taint]++
	}
	return []string{fmt.Sprintf("node(s) had the taint %s, which the pod doesn't tolerate", taint)}
}

// headline returns what the pod's owner should read first, or "", and the action
// of the event. What no headline is needed for has the scheduler's own action.
func (e *Explainer) headline(m *message) (text, action string) {
	if text, action := e.gangHeadline(m); text != "" {
		return text, action
	}
	if text := e.uncountedHeadline(m); text != "" {
		return text, actionScheduling
	}
	if len(m.taints) > 0 {
		// The one that most of the nodes have.
		taint := slices.MaxFunc(slices.Sorted(maps.Keys(m.taints)), func(a, b string) int { return cmp.Compare(m.taints[a], m.taints[b]) })
		m.removeReasons(func(text string) bool { return strings.Contains(text, " taint "+taint+",") })
		return fmt.Sprintf("spec.tolerations: %d node(s) that the pod asks for had the taint %s, which it doesn't tolerate", m.taints[taint], taint), actionScheduling
	}
	return "", actionScheduling
}

// uncountedHeadline is about shares of devices under a profile that gives none: as
// no node advertises them, every node has too few.
func (e *Explainer) uncountedHeadline(m *message) string {
	if slices.Contains(e.DeviceProfiles, m.profile) {
		return ""
	}
	insufficient := shortfall.Insufficient + berthnames.Prefix
	i := slices.IndexFunc(m.reasons, func(r reason) bool { return strings.HasPrefix(r.text, insufficient) })
	if i < 0 {
		return ""
	}
	resource := strings.TrimPrefix(m.reasons[i].text, shortfall.Insufficient)
	m.removeReasons(func(text string) bool { return strings.HasPrefix(text, insufficient) })
	m.elsewhere = true // under this profile the pod runs nowhere
	return Uncounted(resource, m.profile, e.DeviceProfiles)
}

// Uncounted says that a profile does not count a resource of Berth, and which others do.
func Uncounted(resource, profile string, others []string) string {
	instead := "ask the cluster's administrator for one that does"
	if len(others) > 0 {
		instead = "use " + quoted(others)
	}
	return fmt.Sprintf("limit %s: spec.schedulerName %q doesn't run GPUDevice, which counts it: %s", resource, profile, instead)
}

// removeReasons leaves out the reasons that the headline says better.
func (m *message) removeReasons(said func(string) bool) {
	m.reasons = slices.DeleteFunc(m.reasons, func(r reason) bool { return said(r.text) })
}

// preFilterMessage returns what the plugins said of the nodes, the nodes first that got
// furthest.
func (m *message) preFilterMessage() string {
	if m.fit.Diagnosis.PreFilterMsg != "" {
		return m.refused
	}
	texts := make([]string, len(m.reasons))
	for i, r := range m.reasons {
		texts[i] = fmt.Sprintf("%d %s", r.nodes, r.text)
	}
	if m.view != nil && len(texts) > 0 {
		return strings.Join(texts, ", ") + notCounted
	}
	return strings.Join(texts, ", ")
}

// postFilterMessage returns what the PostFilter plugins answered, as far as it can matter to
// this pod.
func (m *message) postFilterMessage(fw framework.Framework) string {
	messages, preemption := m.postFilterMessages()
	messages = slices.DeleteFunc(messages, func(text string) bool {
		return slices.Contains(ignoredMessages, text)
	})
	if m.preemptible && !m.elsewhere && preemption != "" && preemption != groupPreempts {
		if m.view != nil {
			preemption = preemptionSeenIn(m.view, fw, preemption)
		}
		messages = append(messages, preemption)
	}
	messages = slices.DeleteFunc(messages, func(text string) bool { return text == "" })
	return strings.Join(messages, ", ")
}

// postFilterMessages takes apart what the PostFilter plugins answered: the framework joins it
// with commas, and what DefaultPreemption says has commas itself and ends in a full
// stop.
func (m *message) postFilterMessages() (others []string, preemption string) {
	before, rest, found := strings.Cut(m.fit.Diagnosis.PostFilterMsg, preemptionPrefix)
	others = strings.Split(before, ", ")
	if !found {
		return others, ""
	}
	rest, after, _ := strings.Cut(rest, "., ")
	if after != "" {
		rest += "."
		others = append(others, strings.Split(after, ", ")...)
	}
	return others, preemptionPrefix + rest
}

// join puts a headline before a text. Either may be empty.
func join(headline, text string) string {
	if headline == "" || text == "" {
		return headline + text
	}
	return headline + ". " + text
}

// quoted names schedulers in a sentence.
func quoted(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, " or ")
}
