// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/baselines"
)

// LoadConfiguration is [registry.LoadConfiguration], and takes baselines too, which
// are strategies of GPUDevice here.
func LoadConfiguration(name string, content []byte) (*schedconfig.KubeSchedulerConfiguration, error) {
	return registry.DecodeConfiguration(name, content, func(c *schedconfig.KubeSchedulerConfiguration) error {
		c = c.DeepCopy()
		for i := range c.Profiles {
			for j := range c.Profiles[i].PluginConfig {
				if args, ok := c.Profiles[i].PluginConfig[j].Args.(*config.GPUDeviceArgs); ok {
					c.Profiles[i].PluginConfig[j].Args, _ = baselines.StandIn(args)
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

// WithoutGangs returns the configuration without Coscheduling, which cannot be
// simulated, and whether it had it: the pods of a gang are then placed one by one.
// The configuration itself is not changed.
func WithoutGangs(c *schedconfig.KubeSchedulerConfiguration) (without *schedconfig.KubeSchedulerConfiguration, had bool) {
	without = c.DeepCopy()
	is := func(plugin schedconfig.Plugin) bool { return plugin.Name == registry.GangPlugin }
	for i := range without.Profiles {
		plugins := without.Profiles[i].Plugins
		if plugins == nil {
			continue
		}
		had = had || slices.ContainsFunc(plugins.MultiPoint.Enabled, is) || slices.ContainsFunc(plugins.QueueSort.Enabled, is)
		for _, set := range pluginSets(plugins) {
			set.Enabled = slices.DeleteFunc(set.Enabled, is)
			set.Disabled = slices.DeleteFunc(set.Disabled, is)
		}
		if !slices.ContainsFunc(plugins.MultiPoint.Enabled, func(p schedconfig.Plugin) bool { return p.Name == names.PrioritySort }) {
			plugins.QueueSort = schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: names.PrioritySort}}}
		}
		without.Profiles[i].PluginConfig = slices.DeleteFunc(without.Profiles[i].PluginConfig, func(c schedconfig.PluginConfig) bool { return c.Name == registry.GangPlugin })
	}
	return without, had
}

// pluginSets are the lists of a profile's plugins.
func pluginSets(p *schedconfig.Plugins) []*schedconfig.PluginSet {
	return []*schedconfig.PluginSet{
		&p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore, &p.Score,
		&p.Reserve, &p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.MultiPoint,
	}
}
