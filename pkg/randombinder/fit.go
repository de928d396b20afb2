// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// refusal is why a node may not take a pod: the first cause that applies.
type refusal int

const (
	admitted refusal = iota
	notReady
	cordoned
	tainted
	unmatched
	full
	numRefusals
)

// maxDetails bounds how many taints or resources an unschedulable message
// names, so that it stays below the 1,024 bytes that an event takes.
const maxDetails = 3

// ask is what a pod wants of a node, parsed once per version of the pod.
type ask struct {
	tolerations []corev1.Toleration
	affinity    nodeaffinity.RequiredNodeAffinity
	// requests is empty unless the fit is FitResources.
	requests corev1.ResourceList
}

// check returns the first cause for which fit keeps the node from the pod. used
// is what the node's pods take of it already; only FitResources looks at it.
func (a *ask) check(logger klog.Logger, fit Fit, node *corev1.Node, used corev1.ResourceList) refusal {
	if !isReady(node) {
		return notReady
	}
	if fit == FitNone {
		return admitted
	}
	// A cordon holds for every pod. kube-scheduler lets a pod that tolerates the
	// unschedulable taint pass; who drains a node wants no random pod on it.
	if node.Spec.Unschedulable {
		return cordoned
	}
	if _, found := a.untolerated(logger, node); found {
		return tainted
	}
	if matches, err := a.affinity.Match(node); err != nil || !matches {
		return unmatched
	}
	if fit == FitResources && len(lacking(a.requests, node.Status.Allocatable, used, 1)) > 0 {
		return full
	}
	return admitted
}

// untolerated returns the first taint that keeps the pod off the node. The
// comparison operators of tolerations are alpha, and off.
func (a *ask) untolerated(logger klog.Logger, node *corev1.Node) (corev1.Taint, bool) {
	return schedulinghelpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, a.tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false)
}

// isReady reports whether the node's Ready condition is True.
func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// lacking returns up to limit resources of which less than requested is left.
// A resource of which nothing is requested never lacks, even on a node that is
// overcommitted already.
func lacking(requests, allocatable, used corev1.ResourceList, limit int) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name, request := range requests {
		if request.IsZero() {
			continue
		}
		var sum resource.Quantity
		if u, ok := used[name]; ok {
			sum = u.DeepCopy()
		}
		sum.Add(request)
		if sum.Cmp(allocatable[name]) > 0 {
			if names = append(names, name); len(names) == limit {
				break
			}
		}
	}
	return names
}

// explain words why no node may take the pod: for every cause the number of
// nodes, and the way out. It looks at the nodes a second time, because only a
// pod that found none needs the details.
func (a *ask) explain(logger klog.Logger, fit Fit, nodes []*corev1.Node, used func(node string) corev1.ResourceList) string {
	if len(nodes) == 0 {
		return fmt.Sprintf("0/0 nodes are eligible for --fit=%s: the cluster has no nodes (add one)", fit)
	}
	var counts [numRefusals]int
	taints, resources := sets.New[string](), sets.New[string]()
	for _, node := range nodes {
		cause := a.check(logger, fit, node, used(node.Name))
		counts[cause]++
		if cause == tainted {
			taint, _ := a.untolerated(logger, node)
			taints.Insert(taint.ToString())
		}
		if cause == full {
			for _, name := range lacking(a.requests, node.Status.Allocatable, used(node.Name), len(a.requests)) {
				resources.Insert(string(name))
			}
		}
	}
	texts := [numRefusals]string{
		notReady:  "not ready (kubectl describe node says why)",
		cordoned:  "cordoned (kubectl uncordon)",
		tainted:   fmt.Sprintf("with taint %s that the pod does not tolerate (add to spec.tolerations, or remove the taint)", list(taints)),
		unmatched: "not matching the pod's nodeSelector or required node affinity (label a node, or recreate the pod)",
		full:      fmt.Sprintf("with too little %s left (free or add some, or recreate the pod with smaller requests)", list(resources)),
	}
	var causes []string
	for cause := notReady; cause < numRefusals; cause++ {
		if counts[cause] > 0 {
			causes = append(causes, fmt.Sprintf("%d node(s) %s", counts[cause], texts[cause]))
		}
	}
	return fmt.Sprintf("0/%d nodes are eligible for --fit=%s: %s", len(nodes), fit, strings.Join(causes, "; "))
}

// list returns the first few of names in order.
func list(names sets.Set[string]) string {
	sorted := sets.List(names)
	more := ""
	if len(sorted) > maxDetails {
		more = fmt.Sprintf(" and %d more", len(sorted)-maxDetails)
		sorted = slices.Clip(sorted[:maxDetails])
	}
	return strings.Join(sorted, ", ") + more
}
