// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

// gpuProfile is a profile in which GPUDevice runs.
type gpuProfile struct {
	// index is that of the profile in the configuration.
	index int
	name  string
	args  *config.GPUDeviceArgs
}

// gpuProfiles returns the profiles in which GPUDevice runs. effective is what
// [CheckConfiguration] gets.
func gpuProfiles(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) []gpuProfile {
	var found []gpuProfile
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if running := effective[profile.SchedulerName]; running == nil || !RunsIn(running, gpudevice.Name) {
			continue
		}
		for _, entry := range profile.PluginConfig {
			if args, ok := entry.Args.(*config.GPUDeviceArgs); ok {
				found = append(found, gpuProfile{i, profile.SchedulerName, args})
			}
		}
	}
	return found
}

// Pools returns the GPU pools of the profiles that share devices, by schedulerName. effective
// is what [CheckConfiguration] gets.
func Pools(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) map[string]string {
	pools := map[string]string{}
	for _, profile := range gpuProfiles(cfg, effective) {
		pools[profile.name] = profile.args.Pool
	}
	return pools
}

// checkGPUProfiles rejects profiles that do not agree on which devices are whose: on the
// GPU pool, by which schedulers tell their nodes apart, and on the resources of device
// plugins, by which a node is known to have its devices allocated by one.
func checkGPUProfiles(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	profiles := gpuProfiles(cfg, effective)
	for _, profile := range profiles {
		first, args := profiles[0], profile.args
		path := field.NewPath("profiles").Index(profile.index).Child("pluginConfig").Key(gpudevice.Name).Child("args")
		if args.Pool != first.args.Pool {
			errs = append(errs, field.Invalid(path.Child("pool"), args.Pool, fmt.Sprintf(
				"must be the same as in profile %q, which has %q: a scheduler serves one GPU pool; run the two profiles in two schedulers, each with its own pool",
				first.name, first.args.Pool)))
		}
		if !sets.New(args.DeviceResources...).Equal(sets.New(first.args.DeviceResources...)) {
			errs = append(errs, field.Invalid(path.Child("deviceResources"), args.DeviceResources, fmt.Sprintf(
				"must be the same as in profile %q, which has %q: both serve the same nodes", first.name, first.args.DeviceResources)))
		}
	}
	return errs
}
