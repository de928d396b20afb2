// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/yardsticks"
)

// LoadConfiguration is [registry.LoadConfiguration], and takes yardsticks too, which
// are strategies of GPUDevice here.
func LoadConfiguration(name string, content []byte) (*schedconfig.KubeSchedulerConfiguration, error) {
	return registry.DecodeConfiguration(name, content, func(c *schedconfig.KubeSchedulerConfiguration) error {
		c = c.DeepCopy()
		for i := range c.Profiles {
			for j := range c.Profiles[i].PluginConfig {
				if args, ok := c.Profiles[i].PluginConfig[j].Args.(*config.GPUDeviceArgs); ok {
					c.Profiles[i].PluginConfig[j].Args, _ = yardsticks.StandIn(args)
				}
			}
		}
		return registry.ValidateConfiguration(c)
	})
}

// selectProfiles returns a copy of the configuration that an engine may change,
// with the one profile that is asked for or, if none is, with all of them.
func selectProfiles(c *schedconfig.KubeSchedulerConfiguration, schedulerName string) (*schedconfig.KubeSchedulerConfiguration, error) {
	selected := c.DeepCopy()
	if len(selected.Extenders) > 0 {
		return nil, fmt.Errorf("extenders: the first is %q: the simulator does not call extenders", selected.Extenders[0].URLPrefix)
	}
	if schedulerName == "" {
		return selected, nil
	}
	var names []string
	for i := range selected.Profiles {
		if selected.Profiles[i].SchedulerName == schedulerName {
			selected.Profiles = selected.Profiles[i : i+1]
			return selected, nil
		}
		names = append(names, selected.Profiles[i].SchedulerName)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("no profile has the schedulerName %q: there are %s", schedulerName, strings.Join(names, ", "))
}
