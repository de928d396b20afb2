// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

// checkDeviceResources refuses profiles that do not agree on what device plugins advertise
// devices as: one would place shares on a node on which, for the other, a device plugin hands
// out the same devices.
func checkDeviceResources(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) field.ErrorList {
	var first *config.GPUDeviceArgs
	var firstProfile string
	var errs field.ErrorList
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if running := effective[profile.SchedulerName]; running == nil || !RunsIn(running, gpudevice.Name) {
			continue
		}
		for _, entry := range profile.PluginConfig {
			args, ok := entry.Args.(*config.GPUDeviceArgs)
			switch {
			case !ok:
			case first == nil:
				first, firstProfile = args, profile.SchedulerName
			case !slices.Equal(slices.Sorted(slices.Values(args.DeviceResources)), slices.Sorted(slices.Values(first.DeviceResources))):
				errs = append(errs, field.Invalid(field.NewPath("profiles").Index(i).Child("pluginConfig").Key(gpudevice.Name).Child("args", "deviceResources"),
					args.DeviceResources, fmt.Sprintf("must be the same as in profile %q, which has %q: both serve the same nodes", firstProfile, first.DeviceResources)))
			}
		}
	}
	return errs
}
