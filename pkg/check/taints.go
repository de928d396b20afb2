// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

// MissingTaints finds what a node lacks that tenancy, or sharing, has marked: a taint with
// the effect NoSchedule, the only one that keeps the pods of all other schedulers off it and
// lets those that run there go on. Sharing counts with shares.
func MissingTaints(node *corev1.Node, tenancies []*config.LabelPresenceTenancy, shares bool) []Finding {
	var findings []Finding
	for _, t := range tenancies {
		if known, _ := labelpresence.Ownership(t, node); known {
			findings = append(findings, missingTaint(node, t.NodeLabelKey, t.NodeTaintKey, node.Labels[t.NodeLabelKey])...)
		}
	}
	if shares && node.Labels[names.GPUSharingLabel] == "true" {
		findings = append(findings, missingTaint(node, names.GPUSharingLabel, names.GPUSharingLabel, "true")...)
	}
	return findings
}

func missingTaint(node *corev1.Node, label, key, value string) []Finding {
	var effects []string
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			effects = append(effects, string(taint.Effect))
		}
	}
	if slices.Contains(effects, string(corev1.TaintEffectNoSchedule)) {
		return nil
	}
	message := fmt.Sprintf("the taint %s is missing beside the label %s: other schedulers place pods there", key, label)
	if len(effects) > 0 {
		message = fmt.Sprintf("the taint %s beside the label %s has the effect %s, and not NoSchedule: other schedulers place pods there", key, label, strings.Join(effects, " and "))
	}
	return []Finding{{
		Warning, "Node " + node.Name, "spec.taints", message,
		fmt.Sprintf("kubectl taint node %s %s=%s:%s", node.Name, key, value, corev1.TaintEffectNoSchedule),
	}}
}
