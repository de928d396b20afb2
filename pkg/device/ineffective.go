// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// IneffectiveSetting is a label or annotation of ours on a node that has no effect.
type IneffectiveSetting struct {
	// Field is its path.
	Field string
	// What names it, and its value where that matters.
	What string
	// Detail says why it has no effect, or what would.
	Detail string
}

// String says it in a sentence.
func (s IneffectiveSetting) String() string { return s.What + " has no effect" + s.Detail }

// IneffectiveSettings returns the labels and annotations of ours on the node that have no
// effect.
func IneffectiveSettings(node *corev1.Node) []IneffectiveSetting {
	var settings []IneffectiveSetting
	if value, ok := node.Annotations[names.GPUSharingLabel]; ok {
		settings = append(settings, IneffectiveSetting{
			annotationField(names.GPUSharingLabel), fmt.Sprintf("annotation %s=%q", names.GPUSharingLabel, value), ": it must be a label",
		})
	}
	for _, key := range []string{names.GPUCordonedAnnotation, names.GPUUUIDsAnnotation} {
		if value, ok := node.Labels[key]; ok {
			settings = append(settings, IneffectiveSetting{labelField(key), fmt.Sprintf("label %s=%q", key, value), ": it must be an annotation"})
		}
		if _, ok := node.Annotations[key]; ok && node.Labels[names.GPUSharingLabel] != "true" {
			settings = append(settings, IneffectiveSetting{annotationField(key), "annotation " + key, fmt.Sprintf(" without label %s=true", names.GPUSharingLabel)})
		}
	}
	return settings
}
