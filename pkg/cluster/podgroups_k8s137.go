// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package cluster

import (
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// podGroupKinds is the kind of Kubernetes' own gangs, which is beta and off by default.
var podGroupKinds = []Kind{optIn(kind(schedulingv1beta1.SchemeGroupVersion, "podgroups", true, &schedulingv1beta1.PodGroup{}, func(c api, ns string) pages {
	return page(c.SchedulingV1beta1().PodGroups(ns).List)
}))}

func optIn(kind Kind) Kind {
	kind.OptIn = true
	return kind
}

// PodGroups returns the PodGroups of Kubernetes, in the order of the input.
func (c *Cluster) PodGroups() []PodGroup {
	var groups []PodGroup
	for _, object := range c.others {
		if group, ok := object.(*schedulingv1beta1.PodGroup); ok {
			g := PodGroup{Namespace: group.Namespace, Name: group.Name}
			if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
				g.MinCount = int(gang.MinCount)
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// AdmitPodGroups is Admit for the PodGroups of Kubernetes in the cluster that have no priority:
// an API server gives each one. What names a class that is not there is left as it is.
func (classes PriorityClasses) AdmitPodGroups(c *Cluster) {
	for _, object := range c.others {
		group, ok := object.(*schedulingv1beta1.PodGroup)
		if !ok || group.Spec.Priority != nil {
			continue
		}
		class := classes[group.Spec.PriorityClassName]
		if group.Spec.PriorityClassName == "" {
			class = classes.globalDefault()
		}
		if class != nil {
			group.Spec.PriorityClassName, group.Spec.Priority = class.Name, ptr.To(class.Value)
		}
	}
}

// validatePodGroup checks an object that is a PodGroup.
func validatePodGroup(object runtime.Object) error {
	group, ok := object.(*schedulingv1beta1.PodGroup)
	if !ok {
		return nil
	}
	path, policy := field.NewPath("spec", "schedulingPolicy"), group.Spec.SchedulingPolicy
	switch {
	case (policy.Basic == nil) == (policy.Gang == nil):
		return field.Required(path, "one of gang and basic")
	case policy.Gang != nil && policy.Gang.MinCount < 1:
		return field.Invalid(path.Child("gang", "minCount"), policy.Gang.MinCount, "must be at least 1")
	}
	return nil
}
