// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/berth-scheduler/berth/hack/demo/verdict"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// policyNamespace has the pods of policy.yaml, shopNamespace the shop.
	policyNamespace = "policy"
	shopNamespace   = "shop"
	// stuckPod is the pod of policy.yaml that no node may take.
	stuckPod = "gpu-in-zone-c"
	// ruleLabel is what the rule of config/berth-scheduler/labelpresence.yaml
	// requires of a node. The verdict is told here and does not read that file:
	// it is a second opinion.
	ruleLabel = "selectable"
)

// declaration says what the demo's pods are held against.
func declaration() *verdict.Declaration {
	declared := &verdict.Declaration{
		Namespaces: []string{policyNamespace, shopNamespace},
		Pending:    []verdict.Pending{{Namespace: policyNamespace, Name: stuckPod, Label: ruleLabel}},
	}
	for _, name := range schedulerNames {
		scheduler := verdict.Scheduler{Name: name}
		if name == names.Scheduler {
			scheduler.NodeLabels = []string{ruleLabel}
		}
		declared.Schedulers = append(declared.Schedulers, scheduler)
	}
	return declared
}
