// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// policyNamespace has the pods of policy.yaml, gpuNamespace those of gpu.yaml,
	// shopNamespace the shop.
	policyNamespace = "policy"
	gpuNamespace    = "gpu"
	shopNamespace   = "shop"
	// nearNamespace and besideNamespace have the shop once more, three pods of each
	// Deployment: the one placed by Colocation, the other by stock kube-scheduler.
	nearNamespace   = "near"
	besideNamespace = "near-stock"
	// stuckPod is the pod of policy.yaml that no node may take, tooLargePod that of
	// gpu.yaml.
	stuckPod    = "gpu-in-zone-c"
	tooLargePod = "too-large"
	// ruleLabel is what the rule in berth-scheduler.yaml requires of the nodes of
	// namespaces that carry the label teamLabel=ruleTeam. The verdict is told here
	// and does not read that file: it is a second opinion.
	ruleLabel = "selectable"
	teamLabel = "team"
	ruleTeam  = "research"
)

// ruleNamespaces are the namespaces of that team.
var ruleNamespaces = []string{policyNamespace, shopNamespace}

// namespaces are those of the demo's pods: those in the table of pods, and those
// of which only the calls are shown.
var (
	tableNamespaces = []string{policyNamespace, gpuNamespace, shopNamespace}
	callsNamespaces = []string{nearNamespace, besideNamespace}
	namespaces      = slices.Concat(tableNamespaces, callsNamespaces)
)

// pending are the pods that must find no node.
var pending = []verdict.Pending{
	{Namespace: policyNamespace, Name: stuckPod, Cause: ruleLabel},
	{Namespace: gpuNamespace, Name: tooLargePod, Cause: names.GPUMemoryResource},
}

// isPending reports whether pod is one of those.
func isPending(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pending, func(p verdict.Pending) bool { return p.Namespace == pod.Namespace && p.Name == pod.Name })
}

// The labels in which GPU feature discovery describes the devices of a node.
const (
	countLabel  = "nvidia.com/gpu.count"
	memoryLabel = "nvidia.com/gpu.memory"
	modelLabel  = "nvidia.com/gpu.product"
)

// callsDeclaration says what the pods of callsNamespaces are held against.
func callsDeclaration() *verdict.Declaration {
	return &verdict.Declaration{
		Namespaces: callsNamespaces,
		Schedulers: []verdict.Scheduler{{Name: corev1.DefaultSchedulerName}, {Name: names.Scheduler}},
	}
}

// declaration says what the pods of tableNamespaces are held against.
func declaration() *verdict.Declaration {
	declared := &verdict.Declaration{
		Namespaces: tableNamespaces,
		Pending:    pending,
		GPU: &verdict.GPU{
			MilliResource:    names.GPUMilliResource,
			MemoryResource:   names.GPUMemoryResource,
			ModelAnnotation:  names.GPUModelAnnotation,
			RecordAnnotation: names.GPUAssignedAnnotation,
			DevicesPrefix:    names.GPUDevicesAnnotationPrefix,
			SharingLabel:     names.GPUSharingLabel,
			CountLabel:       countLabel,
			MemoryLabel:      memoryLabel,
			ModelLabel:       modelLabel,
			Unknown:          []string{names.GPUMinMemoryAnnotation, names.GPUCordonedAnnotation, names.GPUUUIDsAnnotation},
		},
	}
	for _, name := range schedulerNames {
		scheduler := verdict.Scheduler{Name: name}
		if name == names.Scheduler {
			scheduler.NodeLabels, scheduler.Namespaces = []string{ruleLabel}, ruleNamespaces
		}
		declared.Schedulers = append(declared.Schedulers, scheduler)
	}
	return declared
}
