// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/stat"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/oracle"
)

// finalState is how the pods of a round lie at its end.
type finalState struct {
	plan *workload.Plan
	// mix is what pods of the workload ask for of devices; nil if none does.
	mix *device.Workload
	// nodes are the plan's, by the names that they have in the cluster.
	nodes map[string]*corev1.Node
	// pods have a node and are not gone, the existing ones included. placed are all
	// that arrived and got a node, the gone ones included.
	pods, placed []*corev1.Pod
	namespace    string
}

// quality adds what the placement is worth to the metrics. It fails if the placement
// is none: if a node or a device is given to more pods than it holds.
func (e *finalState) quality(metrics map[string]float64) error {
	if err := e.check(); err != nil {
		return err
	}
	used := e.usage()
	if err := e.devices(metrics, used); err != nil {
		return err
	}
	metrics[report.CPUImbalance] = e.imbalance(used)
	e.calls(metrics)
	e.labels(metrics)
	return nil
}

// check fails if pods use more of a node or a device than there is.
func (e *finalState) check() error {
	var nodes []corev1.Node
	for _, node := range e.nodes {
		nodes = append(nodes, *node)
	}
	var pods []corev1.Pod
	var errs []error
	for _, pod := range e.pods {
		pods = append(pods, *pod)
		if e.nodes[pod.Spec.NodeName] == nil {
			errs = append(errs, fmt.Errorf("pod %s is on node %q, which is not the benchmark's", pod.Name, pod.Spec.NodeName))
		}
	}
	for _, violation := range oracle.CheckUsage(nodes, pods) {
		errs = append(errs, errors.New(violation.String()))
	}
	return wrongPlacement(errs)
}

// usage returns what pods request of each node.
func (e *finalState) usage() map[string]corev1.ResourceList {
	used := make(map[string]corev1.ResourceList, len(e.nodes))
	for _, pod := range e.pods {
		sum := used[pod.Spec.NodeName]
		if sum == nil {
			sum = corev1.ResourceList{}
			used[pod.Spec.NodeName] = sum
		}
		for name, amount := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			total := sum[name]
			total.Add(amount)
			sum[name] = total
		}
	}
	return used
}

// maxWrong is how many things that are wrong with a placement an error names.
const maxWrong = 5

// wrongPlacement is an error for a placement that is none; nil without errs.
func wrongPlacement(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	if more := len(errs) - maxWrong; more > 0 {
		errs = append(errs[:maxWrong:maxWrong], fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("invalid placement: %w", errors.Join(errs...))
}

// imbalance is the standard deviation of the requested part of the nodes' CPU, in
// percentage points.
func (e *finalState) imbalance(used map[string]corev1.ResourceList) float64 {
	var parts []float64
	for name, node := range e.nodes {
		if all := node.Status.Allocatable.Cpu().MilliValue(); all > 0 {
			parts = append(parts, 100*float64(cpuMilli(used[name]))/float64(all))
		}
	}
	if len(parts) == 0 {
		return 0
	}
	return stat.PopStdDev(parts, nil)
}

// cpuMilli is the CPU in a list of resources.
func cpuMilli(list corev1.ResourceList) int64 { return list.Cpu().MilliValue() }

// calls adds the parts of calls that stay near, if anybody calls anybody. Every bound
// pod counts as ready: whether it runs is not what is measured.
func (e *finalState) calls(metrics map[string]float64) {
	if len(e.plan.Deployments) == 0 {
		return
	}
	deployments, services := e.plan.Deployments[:0:0], e.plan.Services[:0:0]
	for _, deployment := range e.plan.Deployments {
		deployment.Namespace = e.namespace
		deployments = append(deployments, deployment)
	}
	for _, service := range e.plan.Services {
		service.Namespace = e.namespace
		services = append(services, service)
	}
	graph, err := callgraph.Read(deployments, services)
	if err != nil {
		return // nobody calls anybody that is there
	}
	var placement callgraph.Placement
	for _, pod := range e.pods {
		ready := *pod
		ready.Status = corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		placement.Pods = append(placement.Pods, ready)
	}
	for _, node := range e.nodes {
		placement.Nodes = append(placement.Nodes, *node)
	}
	share, err := graph.Share(placement, callgraph.Uniform)
	if err != nil {
		return // a Service has no pod with a node: there is no share then
	}
	metrics[report.CallsWithinNode] = 100 * share.WithinNode
	metrics[report.CallsWithinZone] = 100 * share.WithinZone
}

// labels adds the number of pods on nodes that the workload forbids them, if it
// forbids any.
func (e *finalState) labels(metrics map[string]float64) {
	ruled, violations := false, 0
	for i := range e.plan.Arrivals {
		group := e.plan.Group(e.plan.Arrivals[i].Pod.Name)
		ruled = ruled || group != nil && len(group.RequireNodeLabels)+len(group.ForbidNodeLabels) > 0
	}
	if !ruled {
		return
	}
	for _, pod := range e.placed {
		node, group := e.nodes[pod.Spec.NodeName], e.plan.Group(pod.Name)
		if node != nil && group != nil && !group.Allows(node.Labels) {
			violations++
		}
	}
	metrics[report.LabelViolations] = float64(violations)
}
