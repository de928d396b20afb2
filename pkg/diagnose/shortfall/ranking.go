// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package shortfall

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	berthnames "github.com/berth-scheduler/berth/pkg/apis/names"
)

// Verdict is why a plugin rejects a pod, on one node or on all.
type Verdict struct {
	// Plugin is the plugin's name.
	Plugin string
	// Reasons are what it says, in the words of the event that kube-scheduler records.
	Reasons []string
	// Resolvable is whether evicting pods could help, in the plugin's opinion.
	Resolvable bool
}

// Distance is how far a node is from taking a pod.
type Distance struct {
	// Rank is the sum of the ranks of what is missing, and Gap how much is missing in
	// relation to what is asked for.
	Rank int
	Gap  float64
}

// Compare is negative if d is nearer than other.
func (d Distance) Compare(other Distance) int {
	return cmp.Or(cmp.Compare(d.Rank, other.Rank), cmp.Compare(d.Gap, other.Gap))
}

// IsHidden reports whether the owner of the pod must not learn of the node.
func (d Distance) IsHidden() bool { return d.Rank >= Hidden }

func (d Distance) plus(rank int, gap float64) Distance {
	return Distance{d.Rank + rank, d.Gap + gap}
}

// Ranking ranks the nodes that cannot take one pod: the message of a failed attempt and an
// explanation both ask it. It is not safe for concurrent use.
type Ranking struct {
	// Measures are those of the plugins that measure nodes themselves, by name, and plugins
	// are the names in their order: sums of fractions depend on it.
	Measures map[string]Measure
	plugins  []string

	pod       *corev1.Pod
	affinity  nodeaffinity.RequiredNodeAffinity
	resources []corev1.ResourceName
	// selective is whether the pod asks for what few nodes have.
	selective bool
}

// NewRanking returns a ranking of the nodes for the pod.
func NewRanking(pod *corev1.Pod, measures map[string]Measure) *Ranking {
	r := &Ranking{Measures: measures, plugins: slices.Sorted(maps.Keys(measures)), pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name, quantity := range c.Resources.Limits {
			if isVendors(name) && !quantity.IsZero() {
				r.resources = append(r.resources, name)
			}
		}
	}
	affinity := pod.Spec.Affinity
	r.selective = len(r.resources) > 0 || len(pod.Spec.NodeSelector) > 0 ||
		affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	return r
}

// isVendors reports whether a resource is one that a vendor counts: its name has a domain,
// and not Kubernetes' own.
func isVendors(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && !strings.HasSuffix(domain, "kubernetes.io") && !strings.HasPrefix(domain, "requests.")
}

// Distance returns how far the node is by the measures and the verdicts on it. Plugins
// behind the one that rejected a node may not have been asked: the measures are.
func (r *Ranking) Distance(node fwk.NodeInfo, verdicts ...Verdict) Distance {
	d := Distance{}
	for i := range verdicts {
		d = d.plus(r.AtLeast(node.Node(), &verdicts[i]), 0)
		if verdicts[i].Plugin == names.NodeResourcesFit {
			d = d.plus(distanceOf(Shortages(r.pod, verdicts[i].Reasons, node)))
		}
	}
	for _, plugin := range r.plugins {
		d = d.plus(r.Measures[plugin].Distance(node))
	}
	return d
}

// AtLeast returns the least rank that the node can have: that of the verdict, if its plugin
// measures nothing itself. NodeResourcesFit is measured by what is free.
func (r *Ranking) AtLeast(node *corev1.Node, v *Verdict) int {
	if _, measured := r.Measures[v.Plugin]; measured {
		return 0
	}
	switch {
	case v.Plugin == names.NodeResourcesFit:
		return 0
	case v.Plugin == names.NodeUnschedulable:
		return Cordoned
	case v.Plugin == names.NodeAffinity || v.Plugin == names.NodeName:
		return Unlike
	case v.Resolvable:
		return Apart
	case v.Plugin == names.TaintToleration && r.Wants(node):
		return Closed
	}
	return Other
}

// Wants reports whether the pod asks for what few nodes have, and the node has it: it
// matches the pod's node selector and required node affinity, and has its devices.
func (r *Ranking) Wants(node *corev1.Node) bool {
	if !r.selective {
		return false
	}
	if matches, err := r.affinity.Match(node); err != nil || !matches {
		return false
	}
	return !slices.ContainsFunc(r.resources, func(name corev1.ResourceName) bool {
		if strings.HasPrefix(string(name), berthnames.Prefix) {
			// No node advertises them: a label says who has them.
			return node.Labels[berthnames.GPUSharingLabel] != "true"
		}
		quantity := node.Status.Allocatable[name]
		return quantity.IsZero()
	})
}

// UntoleratedTaints returns the taints that keep the pod from the node, except the one that
// comes with a cordon.
func UntoleratedTaints(pod *corev1.Pod, node *corev1.Node) []corev1.Taint {
	compare := utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
	var found []corev1.Taint
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || node.Spec.Unschedulable && taint.Key == corev1.TaintNodeUnschedulable {
			continue
		}
		if !v1helper.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, compare) {
			found = append(found, *taint)
		}
	}
	return found
}
