// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/leaderelection"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
)

// ValidateConfiguration checks what a decoded and defaulted configuration says,
// before anything is built from it or the API server is asked: the names and
// weights of plugins, who serves default-scheduler, the arguments of Berth's
// plugins, and that all profiles have one tenancy. It returns one aggregate of errors with their paths from the root of
// the file, or nil.
//
// Plugins are given by name in a path, not by index: defaulting puts entries in
// that are not in the file.
func ValidateConfiguration(config *schedconfig.KubeSchedulerConfiguration) error {
	var errs field.ErrorList
	known := knownPlugins()
	for i := range config.Profiles {
		path, profile := field.NewPath("profiles").Index(i), &config.Profiles[i]
		errs = append(errs, checkPluginConfigNames(path.Child("pluginConfig"), profile.PluginConfig, known)...)
		if profile.Plugins != nil {
			errs = append(errs, checkEnabledLists(path.Child("plugins"), profile.Plugins, known)...)
		}
	}
	// A misspelled name also looks like forgotten arguments; report the cause alone.
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	if errs = append(checkDefaultScheduler(config), checkElection(config)...); len(errs) > 0 {
		return errs.ToAggregate()
	}
	if err := ValidateArgs(config); err != nil {
		return err
	}
	return append(checkTenancy(config), checkAllocators(config)...).ToAggregate()
}

// checkAllocators refuses profiles with both plugins that allocate claims. On Kubernetes 1.37 the
// second cannot even be built.
func checkAllocators(config *schedconfig.KubeSchedulerConfiguration) field.ErrorList {
	var errs field.ErrorList
	for i := range config.Profiles {
		plugins := config.Profiles[i].Plugins
		if plugins == nil {
			continue
		}
		enabled := sets.New[string]()
		for _, p := range plugins.MultiPoint.Enabled {
			enabled.Insert(p.Name)
		}
		for _, point := range extensionPoints {
			for _, p := range point.enabled(plugins) {
				enabled.Insert(p.Name)
			}
		}
		if enabled.HasAll(deviceclaims.Name, pluginnames.DynamicResources) {
			errs = append(errs, field.Invalid(field.NewPath("profiles").Index(i).Child("plugins", "multiPoint", "disabled"), pluginnames.DynamicResources, fmt.Sprintf(
				"allocates the claims that %s allocates as well: disable %s here, and enable it nowhere", deviceclaims.Name, pluginnames.DynamicResources)))
		}
	}
	return errs
}

// knownPlugins are the names of all plugins that are compiled in.
func knownPlugins() sets.Set[string] {
	return sets.KeySet(plugins.NewInTreeRegistry()).Union(sets.KeySet(New()))
}

const unknownPlugin = "no plugin of this name is compiled in: correct the spelling"

func checkPluginConfigNames(path *field.Path, entries []schedconfig.PluginConfig, known sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	for i := range entries {
		switch name := entries[i].Name; {
		case name == "":
			errs = append(errs, field.Required(path.Index(i).Child("name"), "the name of the plugin that the arguments are for"))
		case !known.Has(name):
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), name, unknownPlugin))
		}
	}
	return errs
}

// checkEnabledLists checks each list of a profile's plugins. The lists of the
// extension points are checked as the file has them, multiPoint is not expanded.
func checkEnabledLists(path *field.Path, lists *schedconfig.Plugins, known sets.Set[string]) field.ErrorList {
	errs := checkEnabledList(path.Child("multiPoint", "enabled"), lists.MultiPoint.Enabled, known)
	errs = append(errs, checkEnabledList(path.Child("queueSort", "enabled"), lists.QueueSort.Enabled, known)...)
	for _, point := range extensionPoints {
		errs = append(errs, checkEnabledList(path.Child(point.name, "enabled"), point.enabled(lists), known)...)
	}
	return errs
}

func checkEnabledList(path *field.Path, enabled []schedconfig.Plugin, known sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for _, p := range enabled {
		switch {
		case p.Name == "":
			errs = append(errs, field.Required(path, "an entry has no name of a plugin"))
			continue
		case !known.Has(p.Name):
			errs = append(errs, field.Invalid(path, p.Name, unknownPlugin))
		case seen.Has(p.Name):
			errs = append(errs, field.Duplicate(path, p.Name))
		}
		seen.Insert(p.Name)
		if p.Weight < 0 {
			// Upstream takes it, and the best node becomes the worst.
			errs = append(errs, field.Invalid(path.Key(p.Name).Child("weight"), p.Weight, "must not be negative"))
		}
	}
	return errs
}

// checkDefaultScheduler refuses a profile that serves default-scheduler, the name
// of the cluster's own scheduler and the default of a profile without one, unless
// it holds that scheduler's lease: otherwise two schedulers place every pod.
func checkDefaultScheduler(config *schedconfig.KubeSchedulerConfiguration) field.ErrorList {
	le := config.LeaderElection
	if le.LeaderElect && le.ResourceNamespace == stockLeaseNamespace && le.ResourceName == stockLeaseName {
		return nil
	}
	var errs field.ErrorList
	for i := range config.Profiles {
		if config.Profiles[i].SchedulerName == corev1.DefaultSchedulerName {
			errs = append(errs, field.Invalid(field.NewPath("profiles").Index(i).Child("schedulerName"), corev1.DefaultSchedulerName,
				fmt.Sprintf("the cluster's own scheduler serves this name (and a profile without a name gets it): name the profile, or, to take that scheduler's place, set leaderElection to its lease, %s/%s, so that only one of the two schedules",
					stockLeaseNamespace, stockLeaseName)))
		}
	}
	return errs
}

// checkElection refuses what ends the process only when it begins to elect a leader.
func checkElection(config *schedconfig.KubeSchedulerConfiguration) field.ErrorList {
	le := config.LeaderElection
	if least := time.Duration(leaderelection.JitterFactor * float64(le.RetryPeriod.Duration)); le.LeaderElect && le.RenewDeadline.Duration <= least {
		return field.ErrorList{field.Invalid(field.NewPath("leaderElection", "renewDeadline"), le.RenewDeadline.Duration.String(),
			fmt.Sprintf("must be more than %g times retryPeriod, %s: correct one of the two", leaderelection.JitterFactor, least))}
	}
	return nil
}

const configKind = "KubeSchedulerConfiguration"

// describe says what a value of YAML is that is no object.
func describe(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case string:
		return "a text"
	}
	return fmt.Sprint(value)
}

// CheckDocument refuses what the decoder of a KubeSchedulerConfiguration would
// silently leave out, and the files for which its error says little: further
// documents, and another kind or version.
func CheckDocument(content []byte) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	documents := 0
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var value any
		if err := yaml.Unmarshal(document, &value); err != nil {
			return err
		}
		if _, ok := value.(map[string]any); !ok && value != nil {
			return fmt.Errorf("want a %s, with apiVersion and kind, and it holds %s", configKind, describe(value))
		}
		if value != nil {
			documents++
		}
	}
	if documents != 1 {
		return fmt.Errorf("want one YAML document, a %s, and it holds %d", configKind, documents)
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return err
	}
	if want := configv1.SchemeGroupVersion.String(); meta.APIVersion != want {
		return fmt.Errorf("apiVersion: is %q, must be %q", meta.APIVersion, want)
	}
	if meta.Kind != configKind {
		return fmt.Errorf("kind: is %q, must be %q", meta.Kind, configKind)
	}
	return nil
}
