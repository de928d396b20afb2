// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

// TaintProblem is a taint that a node lacks.
type TaintProblem struct {
	// Message says what is wrong, and Command is the command of kubectl that mends it.
	Message, Command string
}

// MissingTaints returns the taints that a node lacks: beside a label of tenancy or of
// sharing it needs one with the effect NoSchedule. Only that effect keeps the pods of all
// other schedulers away and leaves running pods alone: PreferNoSchedule keeps none away, and
// NoExecute evicts those that do not tolerate it. The label of sharing counts with shares.
func MissingTaints(node *corev1.Node, tenancies []*config.LabelPresenceTenancy, shares bool) []TaintProblem {
	var problems []TaintProblem
	for _, t := range tenancies {
		if known, _ := labelpresence.Ownership(t, node); known {
			problems = append(problems, missingTaint(node, t.NodeLabelKey, t.NodeTaintKey, node.Labels[t.NodeLabelKey])...)
		}
	}
	if shares && node.Labels[names.GPUSharingLabel] == "true" {
		problems = append(problems, missingTaint(node, names.GPUSharingLabel, names.GPUSharingLabel, "true")...)
	}
	return problems
}

func missingTaint(node *corev1.Node, label, key, value string) []TaintProblem {
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
	command := fmt.Sprintf("kubectl taint node %s %s=%s:%s", node.Name, key, value, corev1.TaintEffectNoSchedule)
	if len(effects) > 0 {
		harm := "other schedulers place pods there"
		if slices.Contains(effects, string(corev1.TaintEffectNoExecute)) {
			harm = "pods that run there without a toleration are evicted"
			command += fmt.Sprintf(" %s:%s-", key, corev1.TaintEffectNoExecute)
		}
		message = fmt.Sprintf("the taint %s beside the label %s has the effect %s, and not NoSchedule: %s", key, label, strings.Join(effects, " and "), harm)
	}
	return []TaintProblem{{message, command}}
}
