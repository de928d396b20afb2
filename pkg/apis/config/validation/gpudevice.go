// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	maxWorkloadWeight  = 1_000_000
	maxWorkloadClasses = 128
	// milliPerDevice and maxDevices are those of the device model, which this
	// package must not import; a test of the plugin compares them.
	milliPerDevice = 1000
	maxDevices     = 16
	// maxDeviceMemory is 1 PiB, in bytes.
	maxDeviceMemory = 1 << 50
)

// ValidateGPUDeviceArgs returns every error in args as one aggregate, or nil.
func ValidateGPUDeviceArgs(path *field.Path, args *config.GPUDeviceArgs) error {
	errs := validateDeviceResources(path.Child("deviceResources"), args.DeviceResources)
	errs = append(errs, invalid(path.Child("pool"), args.Pool, utilvalidation.IsValidLabelValue(args.Pool))...)
	errs = append(errs, validateGPUNodeLabels(path.Child("nodeLabels"), &args.NodeLabels)...)
	errs = append(errs, validateEnum(path.Child("scoringStrategy", "type"), args.ScoringStrategy.Type, config.GPUDeviceStrategies()...)...)

	workloadPath := path.Child("expectedWorkload")
	if len(args.ExpectedWorkload) > 0 && !args.ScoringStrategy.Type.ExpectsWorkload() {
		errs = append(errs, field.Forbidden(workloadPath, fmt.Sprintf("only strategy %s reads it: set %s to that, or remove the workload",
			config.GPUDeviceFragmentationGradient, path.Child("scoringStrategy", "type"))))
	}
	errs = append(errs, tooMany(workloadPath, len(args.ExpectedWorkload), maxWorkloadClasses)...)
	for i := range args.ExpectedWorkload {
		errs = append(errs, validateWorkloadClass(workloadPath.Index(i), &args.ExpectedWorkload[i])...)
	}
	errs = append(errs, validateEnum(path.Child("nonGPUPods"), args.NonGPUPods,
		config.NonGPUPodsAvoid, config.NonGPUPodsForbid, config.NonGPUPodsAllow)...)
	return errs.ToAggregate()
}

func validateDeviceResources(path *field.Path, resources []string) field.ErrorList {
	var errs field.ErrorList
	for i, name := range resources {
		itemPath := path.Index(i)
		if name == "" {
			errs = append(errs, field.Required(itemPath, "name an extended resource, such as nvidia.com/gpu"))
			continue
		}
		errs = append(errs, invalid(itemPath, name, utilvalidation.IsQualifiedName(name))...)
		switch {
		case strings.HasPrefix(name, names.Prefix):
			errs = append(errs, field.Invalid(itemPath, name, "is a share or unknown, not what a device plugin advertises: remove it"))
		case !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/"):
			errs = append(errs, field.Invalid(itemPath, name, "is not an extended resource: those have a domain of their own, such as nvidia.com/gpu"))
		}
		if slices.Contains(resources[:i], name) {
			errs = append(errs, field.Duplicate(itemPath, name))
		}
	}
	return errs
}

func validateGPUNodeLabels(path *field.Path, labels *config.GPUDeviceNodeLabels) field.ErrorList {
	var errs field.ErrorList
	keys := []struct{ name, value string }{
		{"count", labels.Count},
		{"memory", labels.Memory},
		{"product", labels.Product},
		{"replicas", labels.Replicas},
	}
	same := seen{}
	for _, key := range keys {
		keyPath := path.Child(key.name)
		errs = append(errs, validateLabelKey(keyPath, key.value, "name the label key")...)
		if key.value != "" {
			errs = append(errs, same.repeated(keyPath, keyPath, key.value, "has the same key, and means something else")...)
		}
	}
	// A prefix is not a whole key; with something after it, it must be one.
	prefixPath := path.Child("migPrefix")
	if labels.MIGPrefix == "" {
		return append(errs, field.Required(prefixPath, "name how the labels of MIG devices start"))
	}
	return append(errs, validateLabelKey(prefixPath, labels.MIGPrefix+"x", "")...)
}

func validateWorkloadClass(path *field.Path, class *config.GPUDeviceWorkloadClass) field.ErrorList {
	errs := validateBetween(path.Child("weight"), class.Weight, 1, maxWorkloadWeight)
	if class.CPU.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("cpu"), class.CPU.String(), "must not be negative"))
	}
	if m := class.GPUMilli; m < 0 || m > maxDevices*milliPerDevice || m > milliPerDevice && m%milliPerDevice != 0 {
		errs = append(errs, field.Invalid(path.Child("gpuMilli"), m, fmt.Sprintf(
			"must be 1 to %d for a share, a multiple of %d up to %d for whole devices, or absent", milliPerDevice-1, milliPerDevice, maxDevices*milliPerDevice)))
	}
	errs = append(errs, validateDeviceMemory(path.Child("gpuMemory"), &class.GPUMemory)...)
	errs = append(errs, validateDeviceMemory(path.Child("gpuMinMemory"), &class.GPUMinMemory)...)
	errs = append(errs, validateModelPatterns(path.Child("gpuModel"), class.GPUModel)...)
	if class.GPUMilli == 0 && class.GPUMemory.IsZero() {
		const needsDevice = "constrains devices, and the class asks for none: set gpuMilli or gpuMemory, or remove it"
		if class.GPUModel != "" {
			errs = append(errs, field.Invalid(path.Child("gpuModel"), class.GPUModel, needsDevice))
		}
		if !class.GPUMinMemory.IsZero() {
			errs = append(errs, field.Invalid(path.Child("gpuMinMemory"), class.GPUMinMemory.String(), needsDevice))
		}
	}
	return errs
}

// validateDeviceMemory checks an amount of device memory in bytes; zero is
// absent.
func validateDeviceMemory(path *field.Path, memory *resource.Quantity) field.ErrorList {
	switch {
	case memory.Sign() < 0:
		return field.ErrorList{field.Invalid(path, memory.String(), "must not be negative")}
	case memory.CmpInt64(maxDeviceMemory) > 0:
		return field.ErrorList{field.Invalid(path, memory.String(), "is more than any device has: the unit is bytes, write it like 10Gi")}
	}
	return nil
}

// validateModelPatterns checks a comma-separated list of patterns, as the pod
// annotation has it.
func validateModelPatterns(path *field.Path, list string) field.ErrorList {
	if list == "" {
		return nil
	}
	for pattern := range strings.SplitSeq(list, ",") {
		pattern = strings.TrimSpace(pattern)
		if pattern == "" || strings.ContainsFunc(pattern, notInModelPattern) {
			return field.ErrorList{field.Invalid(path, list, "must be patterns of letters, digits, '-', '_', '.' and '*', separated by commas")}
		}
	}
	return nil
}

func notInModelPattern(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.', r == '*':
		return false
	default:
		return true
	}
}
