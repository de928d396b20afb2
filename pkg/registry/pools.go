// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

// Pools returns the GPU pools of the profiles that share devices, by schedulerName. effective
// is what [CheckConfiguration] gets.
func Pools(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) map[string]string {
	pools := map[string]string{}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		if running := effective[profile.SchedulerName]; running == nil || !RunsIn(running, gpudevice.Name) {
			continue
		}
		for _, entry := range profile.PluginConfig {
			if args, ok := entry.Args.(*config.GPUDeviceArgs); ok {
				pools[profile.SchedulerName] = args.Pool
			}
		}
	}
	return pools
}

// checkPools refuses profiles with different GPU pools: one scheduler serves one, by which
// others tell its nodes from theirs.
func checkPools(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	pools, first := Pools(cfg, effective), -1
	for i := range cfg.Profiles {
		pool, ok := pools[cfg.Profiles[i].SchedulerName]
		switch {
		case !ok:
		case first < 0:
			first = i
		case pool != pools[cfg.Profiles[first].SchedulerName]:
			errs = append(errs, field.Invalid(field.NewPath("profiles").Index(i).Child("pluginConfig").Key(gpudevice.Name).Child("args", "pool"), pool, fmt.Sprintf(
				"must be as in profiles[%d], %q: a scheduler serves one GPU pool; run the two profiles in two schedulers, each with its own pool",
				first, pools[cfg.Profiles[first].SchedulerName])))
		}
	}
	return errs
}
