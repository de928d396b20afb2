// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// signature is all that the plugin reads of a pod. Two pods with equal
// signatures get the same verdict and score for every node.
type signature struct {
	// Rules are the indexes of the rules that select the pod.
	Rules []int `json:"rules,omitempty"`
	// Namespace is set only if the labels of the namespace, or its exemption from
	// tenancy, decide something.
	Namespace string `json:"namespace,omitempty"`
}

// SignPod signs every pod: no result depends on other pods. A namespace's labels
// can change between two equal pods, but the node that the first one's result
// proposes for the second still goes through Filter.
func (pl *LabelPresence) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	selected := pl.policy.selectFor(pod)
	value := signature{Rules: selected.rules}
	if selected.needsNamespace {
		value.Namespace = pod.Namespace
	}
	return []fwk.SignFragment{{Key: names.LabelPresenceFragment, Value: value}}, nil
}
