// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// request is what a pod asks for: what its annotations say, and every rule that
// selects it. It does not change.
type request struct {
	// rules are the indexes of those rules.
	rules []int
	// terms are empty if the pod asks for nothing.
	terms []term
}

// term is to be near the pods of some Services, from one source.
type term struct {
	// rule is the index of the rule that it comes from, or byAnnotations.
	rule     int
	services []serviceRef
	// topologyKeys are the levels, nearest first; never empty.
	topologyKeys []string
	// requiredTopologyKey is empty if being near is a preference only.
	requiredTopologyKey string
	// weight is 1 to 100, beside the other terms.
	weight int64
}

// byAnnotations is the rule of what the pod says itself.
const byAnnotations = -1

// topologyKeysField names the field with the levels.
func (t *term) topologyKeysField() string {
	if t.rule == byAnnotations {
		return "annotation " + names.ColocateTopologyKeysAnnotation
	}
	return fmt.Sprintf("%s rules[%d].topologyKeys", Name, t.rule)
}

// requiredTopologyKeyField names the field with the requirement.
func (t *term) requiredTopologyKeyField() string {
	if t.rule == byAnnotations {
		return "annotation " + names.ColocateRequiredTopologyKeyAnnotation
	}
	return fmt.Sprintf("%s rules[%d].requiredTopologyKey", Name, t.rule)
}

// serviceRef names a Service and says how much it counts within its term.
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

func hasAnnotations(pod *corev1.Pod) bool {
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

// CheckAnnotations returns what the plugin rejects the pod for, whatever the cluster has:
// an error that names every annotation that is wrong and how to write it. The
// ValidatingAdmissionPolicy of manifests/components/colocation refuses the same.
func CheckAnnotations(pod *corev1.Pod) error {
	_, _, err := termOf(pod, nil)
	return err
}

// termOf returns what the annotations of the pod say, and whether they say
// anything. byDefault are the topology keys of a pod that names none. The error
// names every annotation that is wrong and how to write it; its text is for the
// user.
func termOf(pod *corev1.Pod, byDefault []string) (term, bool, error) {
	if !hasAnnotations(pod) {
		return term{}, false, nil
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
	with, hasWith := pod.Annotations[names.ColocateWithAnnotation]
	keys, hasKeys := pod.Annotations[names.ColocateTopologyKeysAnnotation]
	required, hasRequired := pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation]
	t := term{rule: byAnnotations, topologyKeys: byDefault, weight: 1}
	if hasWith {
		t.services = parseServices(with, &problems)
	} else {
		for key, has := range map[string]bool{names.ColocateTopologyKeysAnnotation: hasKeys, names.ColocateRequiredTopologyKeyAnnotation: hasRequired} {
			if has {
				problems.add("annotation %s says how to be near the Services of annotation %s, which is missing: add it, or remove this one",
					key, names.ColocateWithAnnotation)
			}
		}
	}
	if hasKeys {
		t.topologyKeys = parseTopologyKeys(keys, &problems)
	}
	if hasRequired {
		t.requiredTopologyKey = parseTopologyKey(required, names.ColocateRequiredTopologyKeyAnnotation, &problems)
	}
	return t, true, problems.error()
}

// Bounds of what a pod may ask for, beside those of the arguments.
const (
	// maxProblems is how many problems of one pod are told at once.
	maxProblems = 4
	// maxQuoted is how much of a wrong value is repeated, in bytes.
	maxQuoted = 80
	// maxBytes bounds what is read of one annotation: twice the longest that is
	// valid without spaces.
	maxBytes = 8192
	// maxKeyBytes is the length of the longest label key: a DNS subdomain, a slash
	// and 63 characters. What is longer is not worth matching.
	maxKeyBytes = utilvalidation.DNS1123SubdomainMaxLength + 1 + 63
)

// problems gathers what is wrong with the annotations of a pod.
type problems struct {
	texts []string
}

func (p *problems) add(format string, args ...any) {
	p.texts = append(p.texts, fmt.Sprintf(format, args...))
}

// error returns what was added as one error, or nil. The order is that of the
// texts, so that the same pod gets the same text in every attempt.
func (p *problems) error() error {
	if len(p.texts) == 0 {
		return nil
	}
	slices.Sort(p.texts)
	texts := slices.Compact(p.texts)
	if more := len(texts) - maxProblems; more > 0 {
		texts = append(texts[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(texts, "; "))
}

// quote repeats a wrong value, or as much of it as a message has room for.
func quote(value string) string {
	if len(value) <= maxQuoted {
		return strconv.Quote(value)
	}
	return strconv.Quote(strings.ToValidUTF8(value[:maxQuoted], "")) + "..."
}

// tooLong reports whether the value is too long to be read, and says so.
func tooLong(value, key string, problems *problems) bool {
	if len(value) <= maxBytes {
		return false
	}
	problems.add("annotation %s has %d bytes: it may have %d", key, len(value), maxBytes)
	return true
}

// parseServices reads "backend=3,cache,other/db=10". Spaces around what the
// commas and the = separate are ignored.
func parseServices(list string, problems *problems) []serviceRef {
	const key = names.ColocateWithAnnotation
	if tooLong(list, key, problems) {
		return nil
	}
	if strings.TrimSpace(list) == "" {
		problems.add("annotation %s names no Service: write it like backend=3,cache, or remove it", key)
		return nil
	}
	if n := strings.Count(list, ",") + 1; n > validation.MaxServices {
		problems.add("annotation %s names %d Services: at most %d are accepted", key, n, validation.MaxServices)
		return nil
	}
	var services []serviceRef
	for item := range strings.SplitSeq(list, ",") {
		service, ok := parseService(strings.TrimSpace(item), problems)
		if !ok {
			continue
		}
		if slices.ContainsFunc(services, func(s serviceRef) bool { return s.namespace == service.namespace && s.name == service.name }) {
			problems.add("annotation %s names Service %s twice: add up the weights", key, quote(strings.TrimSpace(item)))
			continue
		}
		services = append(services, service)
	}
	return services
}

// parseService reads "name", "namespace/name" or either with =weight behind it.
func parseService(item string, problems *problems) (serviceRef, bool) {
	const key = names.ColocateWithAnnotation
	reference, weight, hasWeight := strings.Cut(item, "=")
	service := serviceRef{weight: validation.MinColocationWeight}
	ok := true
	if hasWeight {
		weight = strings.TrimSpace(weight)
		n, err := strconv.ParseUint(weight, 10, 8)
		if err != nil || n < validation.MinColocationWeight || n > validation.MaxColocationWeight || weight[0] == '0' {
			problems.add("annotation %s: the weight in %s must be a whole number from %d to %d", key, quote(item), validation.MinColocationWeight, validation.MaxColocationWeight)
			ok = false
		}
		service.weight = int64(n)
	}
	var wrong []string
	if service.namespace, service.name, wrong = validation.ParseServiceName(strings.TrimSpace(reference)); len(wrong) > 0 {
		problems.add("annotation %s: %s names no Service: write name or namespace/name, each a DNS label of lower-case letters, digits and '-', with commas between", key, quote(item))
		ok = false
	}
	return service, ok
}

// parseTopologyKeys reads "kubernetes.io/hostname,topology.kubernetes.io/zone".
func parseTopologyKeys(list string, problems *problems) []string {
	const key = names.ColocateTopologyKeysAnnotation
	if tooLong(list, key, problems) {
		return nil
	}
	if n := strings.Count(list, ",") + 1; n > validation.MaxTopologyKeys {
		problems.add("annotation %s names %d topology keys: at most %d are accepted", key, n, validation.MaxTopologyKeys)
		return nil
	}
	var topologyKeys []string
	for item := range strings.SplitSeq(list, ",") {
		topologyKey := parseTopologyKey(item, key, problems)
		if slices.Contains(topologyKeys, topologyKey) {
			problems.add("annotation %s names %s twice: the first is the nearer level, remove the other", key, quote(topologyKey))
			continue
		}
		topologyKeys = append(topologyKeys, topologyKey)
	}
	return topologyKeys
}

// parseTopologyKey reads one topology key; empty if it is too long to be read.
func parseTopologyKey(item, key string, problems *problems) string {
	if tooLong(item, key, problems) {
		return ""
	}
	topologyKey := strings.TrimSpace(item)
	if len(topologyKey) > maxKeyBytes || len(utilvalidation.IsQualifiedName(topologyKey)) > 0 {
		problems.add("annotation %s: %s is not a topology key: name a label key of nodes, such as topology.kubernetes.io/zone", key, quote(topologyKey))
	}
	return topologyKey
}
