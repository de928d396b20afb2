// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/output"
)

// notAdmitted says for what the API server does not create all the pods.
func notAdmitted(in *Input) []string { return slices.Concat(in.Refused, quotasRefuse(in)) }

// quotasRefuse says which ResourceQuotas do not admit all the pods, if those do not exist
// yet: a pod that exists was admitted. The API server's own code counts.
func quotasRefuse(in *Input) []string {
	if in.Of == "" {
		return nil
	}
	var refused []string
	for _, q := range in.Quotas {
		if admitted, why := admits(q, in.Pods); why != "" {
			refused = append(refused, fmt.Sprintf("ResourceQuota %s/%s admits %d of %s: %s", q.Namespace, q.Name, admitted, output.Count(len(in.Pods), "pod"), why))
		}
	}
	return refused
}

// admits returns how many of the pods the quota admits, and why not the next one.
func admits(q *corev1.ResourceQuota, pods []*corev1.Pod) (admitted int, why string) {
	evaluator := core.NewPodEvaluator(nil, clock.RealClock{})
	used, hard := q.Status.Used, q.Status.Hard
	if len(hard) == 0 {
		hard = q.Spec.Hard // no controller has looked at it yet
	}
	names := quota.ResourceNames(hard)
	for i, pod := range pods {
		if pod.Namespace != q.Namespace {
			continue
		}
		if matches, err := evaluator.Matches(q, pod); err != nil || !matches {
			continue // an error is one of a selector that the API server refuses, too
		}
		if err := evaluator.Constraints(evaluator.MatchingResources(names), pod); err != nil {
			return i, err.Error()
		}
		usage, err := evaluator.Usage(pod)
		if err != nil {
			return i, err.Error()
		}
		asked := quota.Mask(usage, names)
		total := quota.Add(used, asked)
		if fits, exceeded := quota.LessThanOrEqual(quota.Mask(total, quota.ResourceNames(asked)), hard); !fits {
			return i, exceeding(exceeded, asked, used, hard)
		}
		used = total
	}
	return len(pods), ""
}

// exceeding says of which resources too little is left.
func exceeding(exceeded []corev1.ResourceName, asked, used, hard corev1.ResourceList) string {
	slices.Sort(exceeded)
	var texts []string
	for _, name := range exceeded {
		asks, uses, has := asked[name], used[name], hard[name]
		texts = append(texts, fmt.Sprintf("%s of %s %s are in use; the next pod needs %s", uses.String(), has.String(), name, asks.String()))
	}
	return strings.Join(texts, "; ")
}

// queuedBy says what Kueue waits for, with the pod or with what controls it.
func queuedBy(in *Input, pod *corev1.Pod) []string {
	var told []string
	for i := range in.Workloads {
		if w := &in.Workloads[i]; w.Namespace == pod.Namespace && w.standsFor(pod) {
			told = append(told, fmt.Sprintf("Kueue's Workload %s/%s (queue %s) %s", w.Namespace, w.Name, w.Queue, w.state()))
		}
	}
	return told
}

// standsFor reports whether the workload is the pod's, or that of what controls it.
func (w *Workload) standsFor(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return slices.ContainsFunc(w.Owners, func(owner metav1.OwnerReference) bool {
		switch {
		case owner.Kind == "Pod":
			return owner.Name == pod.Name && (pod.UID == "" || owner.UID == pod.UID)
		case controller == nil:
			return false
		}
		return owner.Kind == controller.Kind && owner.Name == controller.Name
	})
}

// state says what becomes of the workload, in Kueue's words.
func (w *Workload) state() string {
	said := func(c *metav1.Condition) string { return strings.TrimSuffix(c.Message, ".") }
	if w.Inactive {
		return "is inactive (spec.active: false)"
	}
	for _, step := range []struct{ condition, text string }{
		{"QuotaReserved", "has no quota"}, {"Admitted", "has its quota, but its admission checks have not passed"},
	} {
		switch c := meta.FindStatusCondition(w.Conditions, step.condition); {
		case c == nil && step.condition == "QuotaReserved":
			return step.text + " yet"
		case c != nil && c.Status != metav1.ConditionTrue:
			return step.text + ": " + said(c)
		}
	}
	return "is admitted"
}
