// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

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
	"k8s.io/utils/ptr"

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

// runIDs is the form of every run's id. It has no dash, so that no run's name is the
// beginning of another's.
var runIDs = regexp.MustCompile(`^[0-9a-f]{8}$`)

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

// ownsNamespace reports whether a namespace is the run's: by its label and by its name.
func (e *Environment) ownsNamespace(ns *corev1.Namespace) bool {
	return runIDs.MatchString(e.runID) && ns.Name == e.namespace && ns.Labels[names.BenchLabel] == e.runID
}

// taintOf keeps every pod but the run's own from a run's nodes, and those that tolerate
// everything.
func taintOf(runID string) corev1.Taint {
	return corev1.Taint{Key: names.BenchLabel, Value: runID, Effect: corev1.TaintEffectNoSchedule}
}

// NodeName returns the name in the cluster of the node that the plan calls planned.
func (e *Environment) NodeName(planned string) string { return nodePrefix(e.runID) + planned }

// OwnsNode reports whether a node of this name in the cluster is the run's.
func (e *Environment) OwnsNode(name string) bool { return strings.HasPrefix(name, nodePrefix(e.runID)) }

// adoptNode returns a copy of a planned node that is marked as the run's. The namespace
// owns it: when that is deleted, by whomever, the garbage collector deletes the node.
func (e *Environment) adoptNode(planned *corev1.Node) (*corev1.Node, error) {
	node := planned.DeepCopy()
	node.Name = e.NodeName(planned.Name)
	// A node's name is its label kubernetes.io/hostname too.
	if len(node.Name) > validation.LabelValueMaxLength {
		return nil, fmt.Errorf("node %s: its name in the cluster, %s, has more than %d characters: choose a shorter one",
			planned.Name, node.Name, validation.LabelValueMaxLength)
	}
	node.Labels = with(node.Labels, names.BenchLabel, e.runID)
	node.Labels[corev1.LabelHostname] = node.Name
	node.Annotations = with(node.Annotations, fakeNodeAnnotation, fakeNode)
	node.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: e.namespace, UID: e.uid}}
	if !e.exclusive {
		node.Spec.Taints = append(node.Spec.Taints, taintOf(e.runID))
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
// nodes have. It has no grace period: without a kubelet, a pod that is deleted would stay
// for ever, and its namespace with it.
func (e *Environment) Adopt(pod *corev1.Pod) {
	pod.Namespace = e.namespace
	pod.Labels = with(pod.Labels, names.BenchLabel, e.runID)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	if pod.Spec.NodeName != "" {
		pod.Spec.NodeName = e.NodeName(pod.Spec.NodeName)
	}
	if planned, ok := pod.Spec.NodeSelector[corev1.LabelHostname]; ok {
		pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, corev1.LabelHostname, e.NodeName(planned))
	}
	if e.exclusive {
		return
	}
	pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, names.BenchLabel, e.runID)
	pod.Spec.NodeSelector[corev1.LabelOSStable] = fakeOS
	if _, ok := pod.Spec.NodeSelector[labelOSBeta]; ok {
		pod.Spec.NodeSelector[labelOSBeta] = fakeOS
	}
	taint := taintOf(e.runID)
	pod.Spec.Tolerations = append(slices.Clip(pod.Spec.Tolerations), corev1.Toleration{
		Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
	})
}

// AdoptService makes a planned Service the run's: it sets the namespace and the
// label.
func (e *Environment) AdoptService(service *corev1.Service) {
	service.Namespace = e.namespace
	service.Labels = with(service.Labels, names.BenchLabel, e.runID)
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
func (e *Environment) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: names.BenchLabel + "=" + e.runID}
}
