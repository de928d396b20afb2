// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// validatePods checks the groups of pods, and what they come to with the
// applications.
func validatePods(path *field.Path, spec *Spec) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Pods) == 0 && len(spec.Applications) == 0 {
		errs = append(errs, field.Required(path.Child("pods"), "describe at least one group of pods, or an application"))
	}
	counted, weighted := 0, 0
	for i := range spec.Pods {
		group, groupPath := &spec.Pods[i], path.Child("pods").Index(i)
		errs = append(errs, validateGroup(groupPath, group)...)
		errs = append(errs, validateArriving(groupPath, group, spec.Nodes)...)
		if group.Weight != 0 {
			weighted++
		}
		counted += min(max(0, group.Count), maxPods+1)
	}
	errs = append(errs, validateTotal(path.Child("totalPods"), spec.TotalPods, counted, weighted)...)
	for i := range spec.Existing {
		group, groupPath := &spec.Existing[i], path.Child("existing").Index(i)
		errs = append(errs, validateGroup(groupPath, group)...)
		errs = append(errs, validateExisting(groupPath, group)...)
	}
	errs = append(errs, validateSum(path, spec)...)
	return append(errs, validateNames(path, spec)...)
}

// validateArriving checks what only groups of spec.pods have.
func validateArriving(path *field.Path, group *PodGroup, nodes []NodeGroup) field.ErrorList {
	var errs field.ErrorList
	switch {
	case group.Count == 0 && group.Weight == 0:
		errs = append(errs, field.Required(path.Child("count"), "set it, or weight: how many pods there are"))
	case group.Count != 0 && group.Weight != 0:
		errs = append(errs, field.Forbidden(path.Child("weight"), "a group with a count has none: remove one of the two"))
	case group.Weight != 0:
		errs = append(errs, validateRange(path.Child("weight"), group.Weight, 1, maxWeight)...)
	default:
		errs = append(errs, validateRange(path.Child("count"), group.Count, 1, maxPods)...)
	}
	if group.GPU != nil {
		errs = append(errs, validatePodGPU(path.Child("gpu"), group.GPU, nodes)...)
	}
	if lifetime := path.Child("lifetime"); group.Lifetime != nil {
		errs = append(errs, validateDuration(lifetime.Child("mean"), group.Lifetime.Mean, time.Millisecond)...)
		errs = append(errs, validateEnum(lifetime.Child("distribution"), group.Lifetime.Distribution, Exponential, Fixed)...)
	}
	return errs
}

// validateExisting checks what groups of spec.existing have, and what they have not.
func validateExisting(path *field.Path, group *PodGroup) field.ErrorList {
	errs := validateRange(path.Child("count"), group.Count, 1, maxPods)
	for _, other := range []struct {
		name string
		set  bool
	}{{"gpu", group.GPU != nil}, {"lifetime", group.Lifetime != nil}, {"weight", group.Weight != 0}} {
		if other.set {
			errs = append(errs, field.Forbidden(path.Child(other.name), "an existing pod has none: remove it"))
		}
	}
	return errs
}

func validateTotal(path *field.Path, total, counted, weighted int) field.ErrorList {
	switch {
	case weighted == 0 && total != 0:
		return field.ErrorList{field.Forbidden(path, "no group of spec.pods has a weight: remove it, or give them a weight instead of a count")}
	case weighted > 0 && total == 0:
		return field.ErrorList{field.Required(path, "set how many pods spec.pods has in all: some of its groups have a weight")}
	case weighted > 0 && total <= counted:
		return field.ErrorList{field.Invalid(path, total, fmt.Sprintf("must be more than the %d pods of the groups with a count: nothing is left for those with a weight", counted))}
	}
	return nil
}

// arrivingPods is how many pods arrive; where a number is out of bounds, it is more
// than maxPods or the number is none.
func arrivingPods(spec *Spec) int {
	total := 0
	for i := range spec.Pods {
		total += min(max(0, spec.Pods[i].Count), maxPods+1)
	}
	total = max(total, min(max(0, spec.TotalPods), maxPods+1))
	for i := range spec.Applications {
		app := &spec.Applications[i]
		for j := range app.Services {
			total += min(max(0, *app.Copies), maxPods+1) * min(max(0, *app.Services[j].Replicas), maxPods+1)
		}
	}
	return total
}

// validateSum bounds how many pods there are in all.
func validateSum(path *field.Path, spec *Spec) field.ErrorList {
	total := arrivingPods(spec)
	for i := range spec.Existing {
		total += min(max(0, spec.Existing[i].Count), maxPods+1)
	}
	if total > maxPods {
		return field.ErrorList{field.Invalid(path, total, fmt.Sprintf("must be at most %d pods in all", maxPods))}
	}
	return nil
}

// validateGroup checks what all groups of pods have in common.
func validateGroup(path *field.Path, group *PodGroup) field.ErrorList {
	errs := validateName(path.Child("name"), group.Name, validation.IsDNS1123Label)
	errs = append(errs, validateQuantity(path.Child("cpu"), group.CPU)...)
	errs = append(errs, validateQuantity(path.Child("memory"), group.Memory)...)
	errs = append(errs, validateLabels(path.Child("labels"), group.Labels, isPodLabel)...)
	errs = append(errs, validateLabelKeys(path.Child("requireNodeLabels"), group.RequireNodeLabels)...)
	errs = append(errs, validateLabelKeys(path.Child("forbidNodeLabels"), group.ForbidNodeLabels)...)
	for i, key := range group.ForbidNodeLabels {
		if slices.Contains(group.RequireNodeLabels, key) {
			errs = append(errs, field.Invalid(path.Child("forbidNodeLabels").Index(i), key, "is in requireNodeLabels, too: no node could be right"))
		}
	}
	return errs
}

func validatePodGPU(path *field.Path, gpu *PodGPU, nodes []NodeGroup) field.ErrorList {
	var errs field.ErrorList
	var forms []string
	if gpu.Milli != 0 {
		forms = append(forms, "milli")
		errs = append(errs, validateRange(path.Child("milli"), gpu.Milli, 1, device.MilliPerDevice-1)...)
	}
	if gpu.Memory.malformed != "" || !gpu.Memory.IsZero() {
		forms = append(forms, "memory")
		errs = append(errs, validateDeviceMemory(path.Child("memory"), gpu.Memory)...)
	}
	if gpu.Count != 0 {
		forms = append(forms, "count")
		errs = append(errs, validateRange(path.Child("count"), gpu.Count, 1, device.MaxDevices)...)
	}
	const one = "set exactly one of milli, memory and count"
	switch {
	case len(forms) == 0:
		errs = append(errs, field.Required(path, one))
	case len(forms) > 1:
		errs = append(errs, field.Forbidden(path, one+", not "+strings.Join(forms, " and ")))
	}
	if len(matchingModels(nodes, device.Models{})) == 0 {
		return append(errs, field.Forbidden(path, "no group of spec.nodes has devices: give one of them gpu, or remove it"))
	}
	return append(errs, validateModels(path.Child("models"), gpu.Models, nodes)...)
}

func validateDeviceMemory(path *field.Path, memory Quantity) field.ErrorList {
	if errs := validateQuantity(path, memory); len(errs) > 0 {
		return errs
	}
	if bytes := memory.Value(); bytes%(1<<20) != 0 || bytes>>20 > device.MaxMemoryMiB {
		return field.ErrorList{field.Invalid(path, memory.String(), "must be whole MiB, such as 10Gi or 512Mi")}
	}
	return nil
}

// validateModels checks patterns, and that some node has devices of each.
func validateModels(path *field.Path, models []string, nodes []NodeGroup) field.ErrorList {
	var errs field.ErrorList
	for i, model := range models {
		pattern, err := device.ParseModels(model)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), model, err.Error()))
		case strings.Contains(model, ","):
			errs = append(errs, field.Invalid(path.Index(i), model, "must be one model: list them as items of their own"))
		case len(matchingModels(nodes, pattern)) == 0:
			errs = append(errs, field.Invalid(path.Index(i), model, "no group of spec.nodes has devices of such a model"))
		}
	}
	if len(errs) == 0 && len(models) > 0 {
		if _, err := device.ParseModels(strings.Join(models, ",")); err != nil {
			errs = append(errs, field.Invalid(path, models, err.Error()))
		}
	}
	return errs
}

// validateNames reports groups whose pods would have the same names. The pods of a
// group are numbered, so it is enough that what stands before the number differs.
func validateNames(path *field.Path, spec *Spec) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]*field.Path{}
	add := func(path *field.Path, name string) bool {
		if earlier, twice := seen[name]; twice && name != "" {
			err := field.Duplicate(path, name)
			err.Detail = fmt.Sprintf("the pods of %s are called so already", earlier)
			errs = append(errs, err)
			return false
		}
		seen[name] = path
		return true
	}
	for i := range spec.Existing {
		add(path.Child("existing").Index(i).Child("name"), spec.Existing[i].Name)
	}
	for i := range spec.Pods {
		add(path.Child("pods").Index(i).Child("name"), spec.Pods[i].Name)
	}
	for i := range spec.Applications {
		app, appPath := &spec.Applications[i], path.Child("applications").Index(i).Child("name")
		services := sets.New[string]() // a service that is there twice is told elsewhere
		for j := range app.Services {
			services.Insert(app.Services[j].Name)
		}
		for copied := range *app.Copies {
			if len(seen) > maxPods {
				return errs // which is told elsewhere, too
			}
			for _, name := range sets.List(services) {
				if !add(appPath, objectName(app, copied, &Service{Name: name})) {
					return errs // the other copies would be the same again
				}
			}
		}
	}
	return errs
}

// isPodLabel reports whether a label of pods is set by the benchmark itself, or is
// one of Berth's, none of which means anything there.
func isPodLabel(key string) bool { return key == appLabel || inDomain(key, names.Domain) }
