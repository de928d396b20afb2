// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// request is what a pod asks for: what its annotations say, and every rule that
// selects it. It does not change.
type request struct {
	// rules are the indexes of those rules.
	rules  []int
	wishes []wish
	limits []limit
}

// none reports whether the pod asks for nothing.
func (r *request) none() bool {
	return len(r.wishes) == 0 && len(r.limits) == 0
}

// wish is to be near the pods of some Services, from one source.
type wish struct {
	// source is where it comes from, as a message names it.
	source   wishSource
	services []serviceRef
	// topologyKeys are the levels, nearest first; never empty.
	topologyKeys []string
	// requiredTopologyKey is empty if being near is a preference only.
	requiredTopologyKey string
	// weight is 1 to 100, beside the other wishes.
	weight int64
}

// wishSource is what a wish comes from: the annotations of the pod, or a rule.
type wishSource struct {
	// rule is the index of the rule, -1 for the annotations.
	rule int
}

// byAnnotations is the source of what the pod says itself.
var byAnnotations = wishSource{rule: -1}

// topologyKeys names the field with the levels.
func (s wishSource) topologyKeys() string {
	if s.rule < 0 {
		return "annotation " + names.ColocateTopologyKeysAnnotation
	}
	return fmt.Sprintf("%s rules[%d].topologyKeys", Name, s.rule)
}

// requiredTopologyKey names the field with the requirement.
func (s wishSource) requiredTopologyKey() string {
	if s.rule < 0 {
		return "annotation " + names.ColocateRequiredTopologyKeyAnnotation
	}
	return fmt.Sprintf("%s rules[%d].requiredTopologyKey", Name, s.rule)
}

// serviceRef names a Service and says how much it counts within its wish.
type serviceRef struct {
	// namespace is empty for the pod's own.
	namespace, name string
	// weight is 1 to 100.
	weight int64
}

// in returns the namespace of the Service for a pod of the given one.
func (s serviceRef) in(podNamespace string) string {
	if s.namespace == "" {
		return podNamespace
	}
	return s.namespace
}

// readAnnotations are the annotations of a pod that the plugin reads.
var readAnnotations = [...]string{
	names.ColocateWithAnnotation, names.ColocateTopologyKeysAnnotation, names.ColocateRequiredTopologyKeyAnnotation,
	names.FormerColocatePreferAnnotation, names.FormerColocateRequireWithinAnnotation,
}

// asksByAnnotations reports whether the pod has one of them.
func asksByAnnotations(pod *corev1.Pod) bool {
	if len(pod.Annotations) == 0 {
		return false
	}
	for _, key := range readAnnotations {
		if _, has := pod.Annotations[key]; has {
			return true
		}
	}
	return false
}

// CheckAnnotations returns what the plugin refuses the pod for, whatever the cluster has:
// an error that names every annotation that is wrong and how to write it. The
// ValidatingAdmissionPolicy of manifests/components/colocation refuses the same.
func CheckAnnotations(pod *corev1.Pod) error {
	_, _, err := wishOf(pod, nil)
	return err
}

// wishOf returns what the annotations of the pod say, and whether they say
// anything. byDefault are the topology keys of a pod that names none. The error
// names every annotation that is wrong and how to write it; its text is for the
// user.
func wishOf(pod *corev1.Pod, byDefault []string) (wish, bool, error) {
	if !asksByAnnotations(pod) {
		return wish{}, false, nil
	}
	var problems problems
	for _, former := range [...][2]string{
		{names.FormerColocatePreferAnnotation, names.ColocateTopologyKeysAnnotation},
		{names.FormerColocateRequireWithinAnnotation, names.ColocateRequiredTopologyKeyAnnotation},
	} {
		if _, has := pod.Annotations[former[0]]; has {
			problems.add("annotation %s is called %s now: rename it", former[0], former[1])
		}
	}
	with, wanted := pod.Annotations[names.ColocateWithAnnotation]
	keys, hasKeys := pod.Annotations[names.ColocateTopologyKeysAnnotation]
	required, hasRequired := pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation]
	w := wish{source: byAnnotations, topologyKeys: byDefault, weight: 1}
	if wanted {
		w.services = parseServices(with, &problems)
	} else {
		for key, has := range map[string]bool{names.ColocateTopologyKeysAnnotation: hasKeys, names.ColocateRequiredTopologyKeyAnnotation: hasRequired} {
			if has {
				problems.add("annotation %s says how to be near the Services of annotation %s, which is missing: add it, or remove this one",
					key, names.ColocateWithAnnotation)
			}
		}
	}
	if hasKeys {
		w.topologyKeys = parseTopologyKeys(keys, &problems)
	}
	if hasRequired {
		w.requiredTopologyKey = parseTopologyKey(required, names.ColocateRequiredTopologyKeyAnnotation, &problems)
	}
	return w, true, problems.error()
}
