// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// fakeNodeAnnotation is how kwok, in a cluster with other nodes, knows those
	// whose kubelet it plays.
	fakeNodeAnnotation = "kwok.x-k8s.io/node"
	fakeNode           = "fake"
	// fakeOS is the value of kubernetes.io/os on the nodes of a run that shares its
	// cluster, and what its pods select. Many DaemonSets tolerate every taint, but select
	// linux: a pod of each on every fake node would be scheduled while something is
	// measured. And no autoscaler can make nodes with it for the pods that stay pending;
	// with the label and the taint of the run alone, some do.
	fakeOS = "none"
	// labelOSBeta is the older name of kubernetes.io/os. The controller-manager copies
	// its value where it is missing: a write a node.
	labelOSBeta = "beta.kubernetes.io/os"
)

// runIDs is the form of every run's id. It has no dash, so that the name of a node
// says which run it belongs to.
var (
	runIDs    = regexp.MustCompile(`^[0-9a-f]{8}$`)
	nodeNames = regexp.MustCompile(`^` + names.BenchPrefix + `([0-9a-f]{8})-`)
)

// NewRunID returns an id for a run: eight hexadecimal digits, by chance.
func NewRunID() string {
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails, says its documentation
	return hex.EncodeToString(id)
}

// ValidateRunID says whether id has the form of a run's id.
func ValidateRunID(id string) error {
	if !runIDs.MatchString(id) {
		return fmt.Errorf("run id %q: must be eight hexadecimal digits such as 0a1b2c3d", id)
	}
	return nil
}

// namespaceOf returns the name of a run's namespace.
func namespaceOf(runID string) string { return names.BenchPrefix + runID }

// nodePrefix returns what the names of a run's nodes start with.
func nodePrefix(runID string) string { return names.BenchPrefix + runID + "-" }

// runOfNode returns the id in the name of a run's node, or an empty string.
func runOfNode(name string) string {
	if match := nodeNames.FindStringSubmatch(name); match != nil {
		return match[1]
	}
	return ""
}

// isNodeOf reports whether a node is the run's: by its label and by its name.
func isNodeOf(runID string, node metav1.Object) bool {
	return node.GetLabels()[names.BenchLabel] == runID && strings.HasPrefix(node.GetName(), nodePrefix(runID))
}

// taintOf keeps every pod but the run's own from a run's nodes, and those that tolerate
// everything.
func taintOf(runID string) corev1.Taint {
	return corev1.Taint{Key: names.BenchLabel, Value: runID, Effect: corev1.TaintEffectNoSchedule}
}

// NodeName returns the name in the cluster of the node that the plan calls planned.
func (g *Ground) NodeName(planned string) string { return nodePrefix(g.runID) + planned }

// OwnsNode reports whether a node of this name in the cluster is the run's.
func (g *Ground) OwnsNode(name string) bool { return strings.HasPrefix(name, nodePrefix(g.runID)) }

// adoptNode returns a copy of a planned node that is marked as the run's.
func (g *Ground) adoptNode(planned *corev1.Node) (*corev1.Node, error) {
	node := planned.DeepCopy()
	node.Name = g.NodeName(planned.Name)
	// A node's name is its label kubernetes.io/hostname too.
	if len(node.Name) > validation.LabelValueMaxLength {
		return nil, fmt.Errorf("node %s: its name in the cluster, %s, has more than %d characters: choose a shorter one",
			planned.Name, node.Name, validation.LabelValueMaxLength)
	}
	node.Labels = with(node.Labels, names.BenchLabel, g.runID)
	node.Labels[corev1.LabelHostname] = node.Name
	node.Annotations = with(node.Annotations, fakeNodeAnnotation, fakeNode)
	if !g.exclusive {
		node.Spec.Taints = append(node.Spec.Taints, taintOf(g.runID))
		node.Labels[corev1.LabelOSStable] = fakeOS
		node.Labels[labelOSBeta] = fakeOS
		// Otherwise the cloud is told to send the traffic of Services there.
		node.Labels[corev1.LabelNodeExcludeBalancers] = "true"
	}
	return node, nil
}

// Adopt makes a planned pod the run's: it sets the namespace and the label, and
// keeps the pod on the run's nodes. A node that the pod names (spec.nodeName, or a
// nodeSelector for kubernetes.io/hostname) gets the name that it has in the cluster.
// On a cluster with other nodes the pod selects the operating system that only fake
// nodes have.
func (g *Ground) Adopt(pod *corev1.Pod) {
	pod.Namespace = g.namespace
	pod.Labels = with(pod.Labels, names.BenchLabel, g.runID)
	if pod.Spec.NodeName != "" {
		pod.Spec.NodeName = g.NodeName(pod.Spec.NodeName)
	}
	if planned, ok := pod.Spec.NodeSelector[corev1.LabelHostname]; ok {
		pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, corev1.LabelHostname, g.NodeName(planned))
	}
	if g.exclusive {
		return
	}
	pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, names.BenchLabel, g.runID)
	pod.Spec.NodeSelector[corev1.LabelOSStable] = fakeOS
	if _, ok := pod.Spec.NodeSelector[labelOSBeta]; ok {
		pod.Spec.NodeSelector[labelOSBeta] = fakeOS
	}
	taint := taintOf(g.runID)
	pod.Spec.Tolerations = append(slices.Clip(pod.Spec.Tolerations), corev1.Toleration{
		Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
	})
}

// AdoptService makes a planned Service the run's: it sets the namespace and the
// label.
func (g *Ground) AdoptService(service *corev1.Service) {
	service.Namespace = g.namespace
	service.Labels = with(service.Labels, names.BenchLabel, g.runID)
}

// with returns a copy of values that has one more.
func with(values map[string]string, key, value string) map[string]string {
	values = maps.Clone(values)
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// selector selects what carries the run's label.
func selector(runID string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: names.BenchLabel + "=" + runID}
}
