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
	// prefer are the topology keys, nearest first; never empty.
	prefer []string
	// requireWithin is a topology key; empty if being near is a preference only.
	requireWithin string
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

// prefer names the field with the levels.
func (s wishSource) prefer() string {
	if s.rule < 0 {
		return "annotation " + names.ColocatePreferAnnotation
	}
	return fmt.Sprintf("%s rules[%d].prefer", Name, s.rule)
}

// requireWithin names the field with the requirement.
func (s wishSource) requireWithin() string {
	if s.rule < 0 {
		return "annotation " + names.ColocateRequireWithinAnnotation
	}
	return fmt.Sprintf("%s rules[%d].requireWithin", Name, s.rule)
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

// wishOf returns what the annotations of the pod say, and whether they say
// anything. byDefault are the levels of a pod that names none. The error names
// every annotation that is wrong and how to write it; its text is for the user.
func wishOf(pod *corev1.Pod, byDefault []string) (wish, bool, error) {
	with, wanted := pod.Annotations[names.ColocateWithAnnotation]
	prefer, hasPrefer := pod.Annotations[names.ColocatePreferAnnotation]
	within, hasWithin := pod.Annotations[names.ColocateRequireWithinAnnotation]
	if !wanted && !hasPrefer && !hasWithin {
		return wish{}, false, nil
	}
	var problems problems
	w := wish{source: byAnnotations, prefer: byDefault, weight: 1}
	if wanted {
		w.services = parseServices(with, &problems)
	} else {
		for key, has := range map[string]bool{names.ColocatePreferAnnotation: hasPrefer, names.ColocateRequireWithinAnnotation: hasWithin} {
			if has {
				problems.add("annotation %s says how to be near the Services of annotation %s, which is missing: add it, or remove this one",
					key, names.ColocateWithAnnotation)
			}
		}
	}
	if hasPrefer {
		w.prefer = parseLevels(prefer, &problems)
	}
	if hasWithin {
		w.requireWithin = parseLevel(within, names.ColocateRequireWithinAnnotation, &problems)
	}
	return w, true, problems.error()
}
