// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"strings"
	"testing"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

func TestCheckGPUProfiles(t *testing.T) {
	running := &schedconfig.Plugins{Filter: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: gpudevice.Name}}}}
	profile := func(name string, resources ...string) schedconfig.KubeSchedulerProfile {
		return schedconfig.KubeSchedulerProfile{SchedulerName: name, PluginConfig: []schedconfig.PluginConfig{
			{Name: gpudevice.Name, Args: &config.GPUDeviceArgs{DeviceResources: resources}},
		}}
	}
	inPool := func(pool string, profile schedconfig.KubeSchedulerProfile) schedconfig.KubeSchedulerProfile {
		profile.PluginConfig[0].Args.(*config.GPUDeviceArgs).Pool = pool
		return profile
	}
	for _, tt := range []struct {
		name     string
		profiles []schedconfig.KubeSchedulerProfile
		running  map[string]*schedconfig.Plugins
		want     string
	}{
		{
			"the same in another order",
			[]schedconfig.KubeSchedulerProfile{profile("a", "nvidia.com/gpu", "amd.com/gpu"), profile("b", "amd.com/gpu", "nvidia.com/gpu")},
			map[string]*schedconfig.Plugins{"a": running, "b": running},
			"",
		},
		{
			"one more",
			[]schedconfig.KubeSchedulerProfile{profile("a", "nvidia.com/gpu"), profile("b", "amd.com/gpu", "nvidia.com/gpu")},
			map[string]*schedconfig.Plugins{"a": running, "b": running},
			`profiles[1].pluginConfig[GPUDevice].args.deviceResources: Invalid value: ["amd.com/gpu","nvidia.com/gpu"]: must be the same as in profile "a", which has ["nvidia.com/gpu"]: both serve the same nodes`,
		},
		{
			"another pool",
			[]schedconfig.KubeSchedulerProfile{inPool("x", profile("a")), inPool("x", profile("b")), profile("c")},
			map[string]*schedconfig.Plugins{"a": running, "b": running, "c": running},
			`profiles[2].pluginConfig[GPUDevice].args.pool: Invalid value: "": must be the same as in profile "a", which has "x": a scheduler serves one GPU pool`,
		},
		{
			"where it does not run",
			[]schedconfig.KubeSchedulerProfile{profile("a", "nvidia.com/gpu"), profile("b", "amd.com/gpu")},
			map[string]*schedconfig.Plugins{"a": running, "b": {}},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := checkGPUProfiles(&schedconfig.KubeSchedulerConfiguration{Profiles: tt.profiles}, tt.running).ToAggregate()
			if got := err != nil; got != (tt.want != "") || got && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got %v", tt.want, err)
			}
		})
	}
}
