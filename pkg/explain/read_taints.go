// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-scheduler/berth/pkg/nearmiss"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// untolerated are the taints of a node that keep the pod away.
func untolerated(pod *corev1.Pod, node *corev1.Node) []corev1.Taint {
	compare := utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
	var found []corev1.Taint
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !v1helper.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, compare) {
			found = append(found, *taint)
		}
	}
	return found
}

// rankTaints is that of a node that repels the pod. To a pod that asks for nothing that
// few nodes have, it does so on purpose.
func rankTaints(s *situation, v engine.Verdict, n fwk.NodeInfo) (rank int, gap float64) {
	taints := untolerated(s.pod, n.Node())
	if len(taints) == 1 && taints[0].Key == corev1.TaintNodeUnschedulable {
		return 0, 0 // counted as a cordon
	}
	return rankCordon(s, v, n)
}

func rankCordon(s *situation, _ engine.Verdict, _ fwk.NodeInfo) (rank int, gap float64) {
	if asksForFew(s.pod) {
		return nearmiss.Closed, 0
	}
	return nearmiss.Other, 0
}

func detailTaints(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var taints []string
	for _, taint := range untolerated(s.pod, n.Node()) {
		taints = append(taints, "the taint "+taint.ToString())
	}
	if len(taints) == 0 {
		return ""
	}
	return "it has " + strings.Join(taints, " and ")
}

func detailCordon(*situation, engine.Verdict, fwk.NodeInfo) string {
	return "it is cordoned"
}
