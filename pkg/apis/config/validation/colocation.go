// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// Bounds of Colocation's arguments, and of pods' annotations.
const (
	MinColocationWeight = 1
	MaxColocationWeight = 100
	MaxServices         = 32
	MaxTopologyKeys     = 8
)

// ValidateColocationArgs returns every error in args as one aggregate, or nil.
func ValidateColocationArgs(path *field.Path, args *config.ColocationArgs) error {
	var errs field.ErrorList
	keysPath := path.Child("topologyKeys")
	if len(args.TopologyKeys) == 0 {
		errs = append(errs, field.Required(keysPath, "name at least one topology key, such as topology.kubernetes.io/zone, or leave it out for the default"))
	}
	errs = append(errs, validateTopologyKeys(keysPath, args.TopologyKeys)...)
	errs = append(errs, refuseFormer(path.Child("prefer"), len(args.Prefer) > 0, "is called topologyKeys now: rename it")...)
	errs = append(errs, refuseFormer(path.Child("firstPodPolicy"), args.FirstPodPolicy != "",
		"is gone: a pod with a requiredTopologyKey waits until a pod of the Service has a node, and one without never does; remove it, and set requiredTopologyKey for the pods that have to wait")...)
	errs = append(errs, refuseFormer(path.Child("nodeSearch"), args.NodeSearch != "",
		"is gone: remove it, and enable the plugin NodeCandidates in the profile, as config/berth-scheduler/colocation.yaml does, to have the nearest of all nodes found; without it, those that the scheduler samples are looked at")...)
	rulesPath := path.Child("rules")
	if many := tooMany(rulesPath, len(args.Rules), maxRules); many != nil {
		return append(errs, many...).ToAggregate()
	}
	for i := range args.Rules {
		errs = append(errs, validateColocationRule(rulesPath.Index(i), &args.Rules[i])...)
	}
	return errs.ToAggregate()
}

func validateColocationRule(path *field.Path, rule *config.ColocationRule) field.ErrorList {
	errs := validateRuleSelector(path.Child("podSelector"), rule.PodSelector)
	errs = append(errs, validateRuleSelector(path.Child("namespaceSelector"), rule.NamespaceSelector)...)
	errs = append(errs, validateServices(path.Child("services"), rule.Services)...)
	errs = append(errs, validateTopologyKeys(path.Child("topologyKeys"), rule.TopologyKeys)...)
	if rule.RequiredTopologyKey != "" {
		errs = append(errs, validateLabelKey(path.Child("requiredTopologyKey"), rule.RequiredTopologyKey, "")...)
	}
	errs = append(errs, refuseFormer(path.Child("prefer"), len(rule.Prefer) > 0, "is called topologyKeys now: rename it")...)
	errs = append(errs, refuseFormer(path.Child("requireWithin"), rule.RequireWithin != "",
		"is called requiredTopologyKey now: rename it; with it, a pod waits where none of the Service's pods has a node")...)
	errs = append(errs, validateColocationWeight(path.Child("weight"), rule.Weight)...)
	errs = append(errs, refuseFormer(path.Child("maxPerNode"), rule.MaxPerNode != 0,
		"is gone: remove it, and give the pods topologySpreadConstraints with topologyKey kubernetes.io/hostname and whenUnsatisfiable DoNotSchedule, which limit how unevenly they are spread")...)
	if len(rule.Services) == 0 {
		errs = append(errs, field.Required(path.Child("services"), "name at least one Service: otherwise the rule does nothing"))
	}
	return errs
}

// refuseFormer refuses a field that an earlier version had, where it is set.
func refuseFormer(path *field.Path, set bool, now string) field.ErrorList {
	if !set {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, now)}
}

func validateServices(path *field.Path, services []config.ColocationService) field.ErrorList {
	if errs := tooMany(path, len(services), MaxServices); errs != nil {
		return errs
	}
	var errs field.ErrorList
	names := seen{}
	for i := range services {
		namePath, name := path.Index(i).Child("name"), services[i].Name
		errs = append(errs, validateServiceName(namePath, name)...)
		errs = append(errs, validateColocationWeight(path.Index(i).Child("weight"), services[i].Weight)...)
		if name != "" {
			errs = append(errs, names.repeated(namePath, path.Index(i), name, "already names it: add up the weights")...)
		}
	}
	return errs
}

// validateServiceName checks "name" or "namespace/name".
func validateServiceName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, `name a Service, as "name" or "namespace/name"`)}
	}
	_, _, problems := ParseServiceName(name)
	return invalid(path, name, problems)
}

// ParseServiceName splits "namespace/name"; the namespace of "name" is empty. It also
// returns what is wrong with either.
func ParseServiceName(reference string) (namespace, name string, problems []string) {
	namespace, name, qualified := strings.Cut(reference, "/")
	if !qualified {
		namespace, name = "", reference
	} else {
		for _, msg := range utilvalidation.IsDNS1123Label(namespace) {
			problems = append(problems, "namespace: "+msg)
		}
	}
	for _, msg := range utilvalidation.IsDNS1123Label(name) {
		problems = append(problems, "name of a Service: "+msg)
	}
	return namespace, name, problems
}

func validateTopologyKeys(path *field.Path, keys []string) field.ErrorList {
	if errs := tooMany(path, len(keys), MaxTopologyKeys); errs != nil {
		return errs
	}
	var errs field.ErrorList
	levels := seen{}
	for i, key := range keys {
		errs = append(errs, validateLabelKey(path.Index(i), key, "name a label key of nodes, such as topology.kubernetes.io/zone")...)
		if key != "" {
			errs = append(errs, levels.repeated(path.Index(i), path.Index(i), key, "is the same level, and nearer")...)
		}
	}
	return errs
}

func validateColocationWeight(path *field.Path, weight int32) field.ErrorList {
	return validateBetween(path, weight, MinColocationWeight, MaxColocationWeight)
}
