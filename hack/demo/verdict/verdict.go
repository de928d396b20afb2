// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// Cluster is what the API server says, at one moment.
type Cluster struct {
	// Nodes are all nodes.
	Nodes []corev1.Node
	// Pods are all pods of all namespaces: those that are not judged still take
	// up room on the nodes.
	Pods []corev1.Pod
	// Deployments are those whose replicas must all be among the judged pods.
	Deployments []appsv1.Deployment
	// Events are the events about the judged pods. Others do no harm.
	Events []eventsv1.Event
}

// Declaration is what the verdict holds the cluster against.
type Declaration struct {
	// Namespaces are those whose pods are judged.
	Namespaces []string
	// Schedulers are all that may place a judged pod. Each must have at least one
	// pod: a scheduler without any would be right whatever it did.
	Schedulers []Scheduler
	// Pending are the pods that must find no node. All others must have one.
	Pending []Pending
	// GPU has pods, of whatever scheduler, held to the devices of their nodes too.
	// Without it, a share is a resource like any other.
	GPU *GPU
}

// Scheduler declares the rules of one schedulerName. Every scheduler is held to
// nodeSelector, taints, spec.unschedulable, topologySpreadConstraints that say
// DoNotSchedule, and the node's allocatable resources; NodeLabels come on top.
type Scheduler struct {
	// Name is the schedulerName.
	Name string
	// NodeLabels are label keys that every node of its pods must carry, whatever
	// the value.
	NodeLabels []string
	// Namespaces are those of whose pods NodeLabels are required; empty: all.
	Namespaces []string
}

// Pending declares a pod that no node may take.
type Pending struct {
	Namespace, Name string
	// Cause is what the pod's condition and its event must both name, as a word: the
	// key of a label, or a resource.
	Cause string
}

// Result is the verdict.
type Result struct {
	// Pods has one judgement for each judged pod, by namespace and name.
	Pods []Pod
	// Devices are those of all shared nodes, by node and index.
	Devices []Device
	// Violations are those of no single judged pod: a missing replica, a scheduler
	// that nothing was given to, a pod that should be pending and is not there, a
	// device of which more is held than it has.
	Violations []string
}

// Pod is the judgement on one pod.
type Pod struct {
	Namespace, Name string
	// SchedulerName is spec.schedulerName, NodeName spec.nodeName. The latter is
	// empty for a pod that has no node.
	SchedulerName, NodeName string
	// Why is what the API says about it: the event Scheduled of a placed pod, the
	// event FailedScheduling of a pending one or, without an event, the message of
	// its condition PodScheduled. Empty if the API has none of them.
	Why string
	// Violations are the rules that this pod breaks, none for a good pod.
	Violations []string
}

// OK reports whether nothing and nobody violates.
func (r *Result) OK() bool {
	return len(r.Violations) == 0 && !slices.ContainsFunc(r.Pods, func(p Pod) bool { return len(p.Violations) > 0 })
}

// Judge returns the verdict on cluster. It reads its arguments only, and the
// same arguments give the same result.
func Judge(cluster *Cluster, declared *Declaration) *Result {
	j := newJudge(cluster, declared)
	result := &Result{Violations: append(j.missing(), j.deviceViolations()...), Devices: j.stock.all()}
	for _, pod := range j.pods {
		result.Pods = append(result.Pods, j.pod(pod))
	}
	slices.SortFunc(result.Pods, func(a, b Pod) int {
		return podKey{a.Namespace, a.Name}.compare(podKey{b.Namespace, b.Name})
	})
	return result
}

// judge holds cluster and declaration in the form that the checks read.
type judge struct {
	cluster    *Cluster
	nodes      map[string]*corev1.Node
	pods       []*corev1.Pod // the judged ones
	schedulers map[string]*Scheduler
	pending    map[podKey]*Pending
	overfull   map[string][]overcommit // by node name
	gpu        *GPU
	stock      *stock
	evidence   evidence
}

// podKey is namespace and name of a pod.
type podKey struct{ namespace, name string }

func (k podKey) String() string { return k.namespace + "/" + k.name }

func (k podKey) compare(other podKey) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

func newJudge(cluster *Cluster, declared *Declaration) *judge {
	j := &judge{
		cluster:    cluster,
		nodes:      make(map[string]*corev1.Node, len(cluster.Nodes)),
		schedulers: make(map[string]*Scheduler, len(declared.Schedulers)),
		pending:    make(map[podKey]*Pending, len(declared.Pending)),
		overfull:   overcommits(cluster.Nodes, cluster.Pods, declared.GPU.resources()),
		gpu:        declared.GPU,
		stock:      takeStock(declared.GPU, cluster.Nodes, cluster.Pods),
		evidence:   gather(cluster.Events),
	}
	for i := range cluster.Nodes {
		j.nodes[cluster.Nodes[i].Name] = &cluster.Nodes[i]
	}
	for i := range cluster.Pods {
		if slices.Contains(declared.Namespaces, cluster.Pods[i].Namespace) {
			j.pods = append(j.pods, &cluster.Pods[i])
		}
	}
	for i := range declared.Schedulers {
		j.schedulers[declared.Schedulers[i].Name] = &declared.Schedulers[i]
	}
	for i := range declared.Pending {
		p := &declared.Pending[i]
		j.pending[podKey{p.Namespace, p.Name}] = p
	}
	return j
}

// pod judges one pod.
func (j *judge) pod(pod *corev1.Pod) Pod {
	verdict := Pod{
		Namespace:     pod.Namespace,
		Name:          pod.Name,
		SchedulerName: pod.Spec.SchedulerName,
		NodeName:      pod.Spec.NodeName,
		Why:           j.evidence.why(pod),
	}
	scheduler, known := j.schedulers[pod.Spec.SchedulerName]
	if !known {
		verdict.Violations = []string{fmt.Sprintf("schedulerName %q is none of those that were declared", pod.Spec.SchedulerName)}
		return verdict
	}
	verdict.Violations = unknownConstraints(pod)
	if pod.Spec.NodeName == "" {
		verdict.Violations = append(verdict.Violations, j.waiting(pod, scheduler)...)
	} else {
		verdict.Violations = append(verdict.Violations, j.placed(pod, scheduler)...)
	}
	return verdict
}

// placed returns what is wrong with a pod that has a node.
func (j *judge) placed(pod *corev1.Pod, scheduler *Scheduler) []string {
	var violations []string
	if _, declared := j.pending[podKey{pod.Namespace, pod.Name}]; declared {
		violations = append(violations, fmt.Sprintf("has node %q, but no node may take it", pod.Spec.NodeName))
	}
	node, exists := j.nodes[pod.Spec.NodeName]
	if !exists {
		return append(violations, fmt.Sprintf("its node %q does not exist", pod.Spec.NodeName))
	}
	violations = append(violations, j.refusals(scheduler, pod, node)...)
	violations = append(violations, j.skews(pod, node)...)
	for _, violation := range j.stock.broken[podKey{pod.Namespace, pod.Name}] {
		if !slices.Contains(violations, violation) {
			violations = append(violations, violation)
		}
	}
	for _, over := range j.overfull[node.Name] {
		if over.concerns(pod) {
			violations = append(violations, over.String())
		}
	}
	return append(violations, j.evidence.placedByOwn(pod)...)
}

// waiting returns what is wrong with a pod that has no node.
func (j *judge) waiting(pod *corev1.Pod, scheduler *Scheduler) []string {
	declared, ok := j.pending[podKey{pod.Namespace, pod.Name}]
	if !ok {
		return []string{"has no node"}
	}
	var violations []string
	for i := range j.cluster.Nodes {
		// A declaration that is wrong about the rules would let a scheduler pass
		// that refuses every node, so the rules are asked as well.
		if node := &j.cluster.Nodes[i]; len(j.refusals(scheduler, pod, node)) == 0 {
			violations = append(violations, fmt.Sprintf("has no node, although node %q satisfies every rule", node.Name))
		}
	}
	return append(violations, j.evidence.refusedFor(pod, declared.Cause)...)
}

// refusals returns every rule that keeps pod off node, whatever else runs there.
func (j *judge) refusals(scheduler *Scheduler, pod *corev1.Pod, node *corev1.Node) []string {
	return append(refusals(scheduler, pod, node), j.gpu.refusals(pod, node)...)
}
