// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// testSeed makes every random choice of these tests the same each time.
const testSeed = 42

// resources builds a list such as resources("cpu", "2", "pods", "10").
func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// readyNode is a node that takes any pod that asks for nothing special.
func readyNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: resources("cpu", "4", "memory", "8Gi", "pods", "110"),
		},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func withReady(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
}

func withCordon(n *corev1.Node) { n.Spec.Unschedulable = true }

func withTaint(key, value string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func withLabel(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func withAllocatable(pairs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable = resources(pairs...) }
}

// pendingPodObject is a pod of the default scheduler name without a node. Its
// UID is its name.
func pendingPodObject(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: "random-scheduler",
			Containers:    []corev1.Container{{Name: "main"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func withRequests(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(pairs...) }
}

func withToleration(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

func withNodeSelector(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func withRequiredAffinity(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func withNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

// testOptions returns the default options, with the fit.
func testOptions(fit Fit) *Options {
	options := NewOptions(pflag.NewFlagSet("", pflag.ContinueOnError))
	options.Fit = fit
	return options
}

// testCluster is a cluster that collects what it queues.
type testCluster struct {
	*cluster
	queued sets.Set[podKey]
}

// newTestCluster returns a cluster of the given nodes for pods of the default
// options.
func newTestCluster(fit Fit, nodes ...*corev1.Node) *testCluster {
	queued := sets.New[podKey]()
	c := &testCluster{newCluster(testOptions(fit), newRand(testSeed), func(key podKey) { queued.Insert(key) }), queued}
	for _, node := range nodes {
		c.applyNode(node)
	}
	return c
}

// numberedNodes returns ready nodes node-0000, node-0001 and so on.
func numberedNodes(n int, changes ...func(*corev1.Node)) []*corev1.Node {
	nodes := make([]*corev1.Node, 0, n)
	for i := range n {
		nodes = append(nodes, readyNode(fmt.Sprintf("node-%04d", i), changes...))
	}
	return nodes
}

// applyAndChoose applies the pod and chooses for it.
func (c *testCluster) applyAndChoose(t *testing.T, pod *corev1.Pod) choice {
	t.Helper()
	c.applyPod(pod)
	return c.choose(klog.FromContext(t.Context()), cache.MetaObjectToName(pod))
}
