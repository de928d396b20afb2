// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Cluster is what the API server says, at one moment.
type Cluster struct {
	// Nodes are all nodes.
	Nodes []corev1.Node
	// Pods are all pods of all namespaces: those that are not checked still take up room
	// on the nodes.
	Pods []corev1.Pod
	// Deployments are those whose replicas must all be among the checked pods.
	Deployments []appsv1.Deployment
	// Events are the events about the checked pods. Others do no harm.
	Events []eventsv1.Event
}

// Expectation is what a cluster is checked against.
type Expectation struct {
	// Namespaces are those whose pods are checked.
	Namespaces []string
	// Schedulers are all that may place a checked pod. Each must have at least one pod: a
	// scheduler without any would be right whatever it did.
	Schedulers []Scheduler
	// Pending are the pods that must find no node. All others must have one.
	Pending []Pending
}

// Scheduler states the rules of one schedulerName. Every scheduler is held to
// nodeSelector, taints, spec.unschedulable, topologySpreadConstraints that say
// DoNotSchedule, the node's allocatable resources and its devices; NodeLabels come on top.
type Scheduler struct {
	// Name is the schedulerName.
	Name string
	// NodeLabels are label keys that every node of its pods must carry, whatever the value.
	NodeLabels []string
	// Namespaces are those of whose pods NodeLabels are required; empty: all.
	Namespaces []string
}

// Pending is a pod that no node may take.
type Pending struct {
	// Pod is namespace/name.
	Pod string
	// Cause is what the pod's condition and its event must both name, as a word: the key
	// of a label, or a resource.
	Cause string
}

// Report is what Check found.
type Report struct {
	// Pods are the checked pods, by namespace and name.
	Pods []Pod
	// Devices are those of all shared nodes, by node and index.
	Devices []Device
	// Violations are those of pods, as namespace/name, and of nothing in particular.
	Violations Violations
}

// Pod is a checked pod.
type Pod struct {
	*corev1.Pod
	// Why is what the API says about it: the event Scheduled of a placed pod, the event
	// FailedScheduling of a pending one or, without an event, the message of its condition
	// PodScheduled. Empty if the API has none of them.
	Why string
}

// Check checks where the pods of a cluster are. It reads its arguments only, and the same
// arguments give the same report.
func Check(cluster *Cluster, expected *Expectation) *Report {
	c := &check{cluster: cluster, nodes: map[string]*corev1.Node{}, schedulers: map[string]*Scheduler{}, pending: map[string]string{}, events: byPod(cluster.Events)}
	for i := range cluster.Nodes {
		c.nodes[cluster.Nodes[i].Name] = &cluster.Nodes[i]
	}
	for i := range expected.Schedulers {
		c.schedulers[expected.Schedulers[i].Name] = &expected.Schedulers[i]
	}
	for _, p := range expected.Pending {
		c.pending[p.Pod] = p.Cause
	}
	for i := range cluster.Pods {
		if pod := &cluster.Pods[i]; slices.Contains(expected.Namespaces, pod.Namespace) {
			c.report.Pods = append(c.report.Pods, Pod{pod, c.events.why(pod)})
		}
	}
	slices.SortFunc(c.report.Pods, func(a, b Pod) int { return cmp.Compare(podName(a.Pod), podName(b.Pod)) })
	c.missing()
	for _, pod := range c.report.Pods {
		c.pod(pod.Pod)
	}
	c.report.Violations = append(c.report.Violations, overrequested(cluster.Nodes, cluster.Pods)...)
	devices := CheckDevices(cluster.Nodes, cluster.Pods)
	c.report.Violations = append(c.report.Violations, devices.Violations...)
	c.report.Devices = devices.All
	return &c.report
}

// check is a Check under way.
type check struct {
	cluster    *Cluster
	nodes      map[string]*corev1.Node
	schedulers map[string]*Scheduler
	// pending are the causes by pod.
	pending map[string]string
	events  events
	report  Report
}

func (c *check) add(kind Kind, object, format string, args ...any) {
	c.report.Violations.add(kind, object, format, args...)
}

// missing finds everything that should be there to be checked and is not. Without it, an
// empty cluster would pass.
func (c *check) missing() {
	if len(c.report.Pods) == 0 {
		c.add(Missing, "pods", "there are no pods to check")
	}
	named, exist := sets.New[string](), sets.New[string]()
	for _, pod := range c.report.Pods {
		named.Insert(pod.Spec.SchedulerName)
		exist.Insert(podName(pod.Pod))
	}
	for _, name := range slices.Sorted(maps.Keys(c.schedulers)) {
		if !named.Has(name) {
			c.add(Missing, name, "no pod has this schedulerName, so nothing shows what the scheduler does")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.pending)) {
		if !exist.Has(name) {
			c.add(Missing, name, "must be pending, and does not exist")
		}
	}
	for i := range c.cluster.Deployments {
		c.replicas(&c.cluster.Deployments[i])
	}
}

// replicas requires every replica of a deployment to be a checked pod with the scheduler
// that the deployment's template names.
func (c *check) replicas(deployment *appsv1.Deployment) {
	name := deployment.Namespace + "/" + deployment.Name
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		c.add(Missing, name, "spec.selector of the Deployment: %v", err)
		return
	}
	found, want := 0, 1 // what the API server defaults to
	if deployment.Spec.Replicas != nil {
		want = int(*deployment.Spec.Replicas)
	}
	for _, pod := range c.report.Pods {
		if pod.Namespace != deployment.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		found++
		if template := deployment.Spec.Template.Spec.SchedulerName; pod.Spec.SchedulerName != template {
			c.add(WrongScheduler, podName(pod.Pod), "has schedulerName %q, and the template of its Deployment %q", pod.Spec.SchedulerName, template)
		}
	}
	if found != want {
		c.add(Missing, name, "the Deployment wants %d pods and has %d", want, found)
	}
}

// pod checks one pod.
func (c *check) pod(pod *corev1.Pod) {
	name := podName(pod)
	scheduler, known := c.schedulers[pod.Spec.SchedulerName]
	if !known {
		c.add(WrongScheduler, name, "schedulerName %q is not expected", pod.Spec.SchedulerName)
		return
	}
	for _, field := range uncheckedFields(&pod.Spec) {
		c.add(Unchecked, name, "%s limits its nodes in a way that is not checked", field)
	}
	cause, mustWait := c.pending[name]
	node, nodeExists := c.nodes[pod.Spec.NodeName]
	switch {
	case pod.Spec.NodeName == "" && !mustWait:
		c.add(Unplaced, name, "has no node")
	case pod.Spec.NodeName == "":
		for i := range c.cluster.Nodes {
			// An expectation that is wrong about the rules would let a scheduler pass that
			// refuses every node, so the rules are asked as well.
			if node := &c.cluster.Nodes[i]; len(rules(scheduler, pod, node)) == 0 && len(refusals(pod, node)) == 0 {
				c.add(Unplaced, name, "has no node, although node %q satisfies every rule", node.Name)
			}
		}
		c.events.requireRefused(c, pod, cause)
	case mustWait:
		c.add(Misplaced, name, "has node %q, but no node may take it", pod.Spec.NodeName)
	case !nodeExists:
		c.add(Misplaced, name, "its node %q does not exist", pod.Spec.NodeName)
	}
	if nodeExists {
		for _, rule := range rules(scheduler, pod, node) {
			c.add(Misplaced, name, "%s", rule)
		}
		c.spread(pod, node)
		c.events.requirePlaced(c, pod)
	}
}

// spread finds every spread constraint that a placed pod's node breaks. A node that was
// right when the pod came stays so while pods only come.
func (c *check) spread(pod *corev1.Pod, node *corev1.Node) {
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule || !checkable(constraint) {
			continue
		}
		own, has := node.Labels[constraint.TopologyKey]
		if !has {
			c.add(Misplaced, podName(pod), "node %q lacks label %q, over which the pod is to be spread", node.Name, constraint.TopologyKey)
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
		if err != nil {
			c.add(Unchecked, podName(pod), "spec.topologySpreadConstraints[%d].labelSelector: %v", i, err)
			continue
		}
		counts := c.domains(pod, constraint.TopologyKey, selector)
		if least := slices.Min(slices.Collect(maps.Values(counts))); counts[own]-least > int(constraint.MaxSkew) {
			c.add(Misplaced, podName(pod), "%s=%s has %d pods like it and another value %d: the skew is %d, at most %d is allowed",
				constraint.TopologyKey, own, counts[own], least, counts[own]-least, constraint.MaxSkew)
		}
	}
}

// domains counts the pods that a constraint selects, by domain. The domain of the pod's
// own node is always there.
func (c *check) domains(pod *corev1.Pod, topologyKey string, selector labels.Selector) map[string]int {
	counts, domainOf := map[string]int{}, map[string]string{}
	for name, node := range c.nodes {
		domain, has := node.Labels[topologyKey]
		allowed := labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels))
		if has && (allowed || name == pod.Spec.NodeName) {
			counts[domain] += 0
			domainOf[name] = domain
		}
	}
	for i := range c.cluster.Pods {
		other := &c.cluster.Pods[i]
		domain, counted := domainOf[other.Spec.NodeName]
		if counted && other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels)) {
			counts[domain]++
		}
	}
	return counts
}

// checkable reports whether a spread constraint is one of those that are checked: the
// domains are the values of one label on the nodes that nodeSelector allows.
func checkable(constraint *corev1.TopologySpreadConstraint) bool {
	return constraint.MinDomains == nil && len(constraint.MatchLabelKeys) == 0 &&
		(constraint.NodeAffinityPolicy == nil || *constraint.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) &&
		(constraint.NodeTaintsPolicy == nil || *constraint.NodeTaintsPolicy == corev1.NodeInclusionPolicyIgnore)
}

// requiredAffinity returns each field of an affinity that a node must satisfy.
func requiredAffinity(affinity *corev1.Affinity) []string {
	if affinity == nil {
		return nil
	}
	var fields []string
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	if a := affinity.NodeAffinity; a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		fields = append(fields, "spec.affinity.nodeAffinity."+required)
	}
	if a := affinity.PodAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		fields = append(fields, "spec.affinity.podAffinity."+required)
	}
	if a := affinity.PodAntiAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		fields = append(fields, "spec.affinity.podAntiAffinity."+required)
	}
	return fields
}

// uncheckedFields returns each field of a pod that restricts its nodes in a way that is
// not checked.
func uncheckedFields(spec *corev1.PodSpec) []string {
	fields := requiredAffinity(spec.Affinity)
	for i := range spec.TopologySpreadConstraints {
		// Whether a node would break one is asked of placed pods only.
		constraint := &spec.TopologySpreadConstraints[i]
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule && (spec.NodeName == "" || !checkable(constraint)) {
			fields = append(fields, fmt.Sprintf("spec.topologySpreadConstraints[%d]", i))
		}
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil {
			fields = append(fields, fmt.Sprintf("spec.volumes[%d]", i))
		}
	}
	for i := range spec.Containers {
		for k := range spec.Containers[i].Ports {
			if spec.Containers[i].Ports[k].HostPort != 0 {
				fields = append(fields, fmt.Sprintf("spec.containers[%d].ports[%d].hostPort", i, k))
			}
		}
	}
	if len(spec.ResourceClaims) > 0 {
		fields = append(fields, "spec.resourceClaims")
	}
	return fields
}
