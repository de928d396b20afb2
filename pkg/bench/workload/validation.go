// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds keep a slip of the pen from filling a machine.
const (
	maxNodes         = 20_000
	maxPods          = 200_000
	maxRounds        = 100
	maxClientQPS     = 100_000
	maxPodsPerSecond = 10_000
	maxTime          = 24 * time.Hour
	maxWeight        = 1_000_000
	maxHostileWrites = 1000
	maxWaitingPods   = 10_000
	// maxConsentKiB leaves room for other annotations within the 256 KiB that the API
	// server takes of them on one object.
	maxConsentKiB = 250
)

// validate returns every error in a workload whose defaults are filled in.
func validate(w *Workload) field.ErrorList {
	errs := validateName(field.NewPath("metadata", "name"), w.Metadata.Name, validation.IsDNS1123Label)
	path, spec := field.NewPath("spec"), &w.Spec
	errs = append(errs, validateRange(path.Child("rounds"), spec.Rounds, 1, maxRounds)...)
	errs = append(errs, validateDuration(path.Child("roundTimeout"), spec.RoundTimeout, time.Second)...)
	if !(spec.ClientQPS >= 1 && spec.ClientQPS <= maxClientQPS) {
		errs = append(errs, field.Invalid(path.Child("clientQPS"), spec.ClientQPS, fmt.Sprintf("must be between 1 and %d", maxClientQPS)))
	}
	errs = append(errs, validateProfiles(path.Child("profiles"), spec.Profiles)...)
	errs = append(errs, validateNodes(path.Child("nodes"), spec.Nodes)...)
	errs = append(errs, validatePods(path, spec)...)
	errs = append(errs, validateApplications(path.Child("applications"), spec.Applications)...)
	errs = append(errs, validateEnum(path.Child("order"), spec.Order, Shuffled, AsListed)...)
	errs = append(errs, validateArrival(path.Child("arrival"), spec.Arrival)...)
	if spec.Hostile != nil {
		errs = append(errs, validateHostile(path.Child("hostile"), spec)...)
	}
	if len(errs) == 0 {
		errs = validateLength(path, spec)
	}
	return errs
}

func validateProfiles(path *field.Path, profiles map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(profiles) {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(path, name, "is not a schedulerName: "+problem))
		}
		switch file := profiles[name]; {
		case file == "":
			errs = append(errs, field.Required(path.Key(name), "name the scheduler's configuration file, relative to this one, or remove the entry"))
		case filepath.IsAbs(file):
			errs = append(errs, field.Invalid(path.Key(name), file, "must be relative to the folder of this file: an absolute path works on one machine only"))
		}
	}
	return errs
}

func validateArrival(path *field.Path, arrival ArrivalSpec) field.ErrorList {
	errs := validateEnum(path.Child("type"), arrival.Type, Burst, Steady, Poisson)
	rate := path.Child("podsPerSecond")
	switch {
	case arrival.Type == Burst && arrival.PodsPerSecond != 0:
		errs = append(errs, field.Forbidden(rate, "a Burst has no rate: remove it, or set type to Steady or Poisson"))
	case arrival.Type == Burst || len(errs) > 0:
	case arrival.PodsPerSecond == 0:
		errs = append(errs, field.Required(rate, fmt.Sprintf("set how many pods a second %s arrivals have", arrival.Type)))
	case !(arrival.PodsPerSecond > 0 && arrival.PodsPerSecond <= maxPodsPerSecond):
		errs = append(errs, field.Invalid(rate, arrival.PodsPerSecond, fmt.Sprintf("must be above 0, and at most %d", maxPodsPerSecond)))
	}
	return errs
}

func validateHostile(path *field.Path, spec *Spec) field.ErrorList {
	var errs field.ErrorList
	hostile := spec.Hostile
	if !(hostile.WritesPerSecond >= 1 && hostile.WritesPerSecond <= maxHostileWrites) {
		errs = append(errs, field.Invalid(path.Child("writesPerSecond"), hostile.WritesPerSecond, fmt.Sprintf("must be between 1 and %d", maxHostileWrites)))
	}
	errs = append(errs, validateRange(path.Child("waitingPods"), hostile.WaitingPods, 1, maxWaitingPods)...)
	errs = append(errs, validateRange(path.Child("services"), hostile.Services, 1, maxServices)...)
	errs = append(errs, validateRange(path.Child("consentKiB"), hostile.ConsentKiB, 1, maxConsentKiB)...)
	nodes := 0
	for i := range spec.Nodes {
		nodes += spec.Nodes[i].Count
	}
	if nodes < 2 {
		errs = append(errs, field.Forbidden(path, "takes two nodes: its pods wait on one for a pod on the other"))
	}
	return errs
}

// validateLength checks that all pods can arrive within a round, in a workload without
// any other error.
func validateLength(path *field.Path, spec *Spec) field.ErrorList {
	arrival, pods := &spec.Arrival, arrivingPods(spec)
	if arrival.Type == Burst {
		return nil
	}
	if last := float64(pods-1) / arrival.PodsPerSecond; last >= spec.RoundTimeout.Seconds() {
		return field.ErrorList{field.Invalid(path.Child("arrival", "podsPerSecond"), arrival.PodsPerSecond, fmt.Sprintf(
			"the last of %d pods would arrive after %.0f seconds, and a round ends after %v: set more pods a second, or a longer spec.roundTimeout", pods, last, spec.RoundTimeout.Duration))}
	}
	return nil
}

func validateLabels(path *field.Path, labels map[string]string, own func(key string) bool) field.ErrorList {
	errs := metav1validation.ValidateLabels(labels, path)
	for _, key := range sortedKeys(labels) {
		if own(key) {
			errs = append(errs, field.Forbidden(path.Key(key), "the benchmark sets it"))
		}
	}
	return errs
}

func validateLabelKeys(path *field.Path, keys []string) field.ErrorList {
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, metav1validation.ValidateLabelName(key, path.Index(i))...)
		if slices.Contains(keys[:i], key) {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
	}
	return errs
}

func validateName(path *field.Path, name string, problems func(string) []string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "give it a name")}
	}
	var errs field.ErrorList
	for _, problem := range problems(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

// validateQuantity checks an amount that may be left out.
func validateQuantity(path *field.Path, q Quantity) field.ErrorList {
	switch {
	case q.malformed != "":
		return field.ErrorList{field.Invalid(path, q.malformed, "must be a quantity such as 4, 500m or 16Gi")}
	case q.Sign() < 0:
		return field.ErrorList{field.Invalid(path, q.String(), "must not be negative")}
	}
	return nil
}

// validateCapacity checks an amount that must be there.
func validateCapacity(path *field.Path, q Quantity) field.ErrorList {
	if q.malformed == "" && q.IsZero() {
		return field.ErrorList{field.Required(path, "set how much a node has, such as 32 or 128Gi")}
	}
	return validateQuantity(path, q)
}

func validateDuration(path *field.Path, d Duration, least time.Duration) field.ErrorList {
	switch {
	case d.malformed != "":
		return field.ErrorList{field.Invalid(path, d.malformed, "must be a duration such as 500ms, 30s or 5m")}
	case d.Duration < least || d.Duration > maxTime:
		return field.ErrorList{field.Invalid(path, d.String(), fmt.Sprintf("must be between %v and %v", least, maxTime))}
	}
	return nil
}

func validateRange[T int | int64](path *field.Path, value, least, most T) field.ErrorList {
	if value < least || value > most {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", least, most))}
	}
	return nil
}

func validateEnum[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// inDomain reports whether a label key is of a domain or one below it.
func inDomain(key, domain string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == domain || strings.HasSuffix(prefix, "."+domain)
}
