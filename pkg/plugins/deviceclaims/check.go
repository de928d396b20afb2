// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// CheckProfile checks a profile that runs the plugin: that pods are not evicted before it was asked,
// and that no arguments are lost. running is what the profile at path runs in the end.
func CheckProfile(path *field.Path, profile *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	at := func(name string) int {
		return slices.IndexFunc(running.PostFilter.Enabled, func(p schedconfig.Plugin) bool { return p.Name == name })
	}
	if own, preemption := at(Name), at(pluginnames.DefaultPreemption); preemption >= 0 && preemption < own {
		errs = append(errs, field.Invalid(path.Child("plugins", "postFilter", "enabled"), pluginnames.DefaultPreemption, fmt.Sprintf(
			"runs before %s, and would evict pods where it is enough to allocate a claim anew: list %s under postFilter.enabled as well as under multiPoint.enabled, before %s",
			Name, Name, pluginnames.DefaultPreemption)))
	}
	for i := range profile.PluginConfig {
		if profile.PluginConfig[i].Name == pluginnames.DynamicResources {
			errs = append(errs, field.Forbidden(path.Child("pluginConfig").Key(pluginnames.DynamicResources), fmt.Sprintf(
				"has no effect: %s runs in its place, with the defaults; remove the arguments", Name)))
		}
	}
	return errs
}
