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

	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// untolerated are the taints of a node that keep the pod away, but for the one that goes
// with a cordon.
func untolerated(pod *corev1.Pod, node *corev1.Node) []corev1.Taint {
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

func detailTaints(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var taints []string
	for _, taint := range untolerated(s.pod, n.Node()) {
		taints = append(taints, taint.ToString())
	}
	return strings.Join(taints, " and ")
}
