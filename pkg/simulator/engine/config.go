// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/yardsticks"
)

// LoadConfiguration decodes the content of a KubeSchedulerConfiguration file as
// berth-scheduler does: strictly, with defaults, and refusing what it refuses but for
// the yardsticks, which are strategies of GPUDevice here.
// name is the file's name, with which every error begins.
func LoadConfiguration(name string, content []byte) (*schedconfig.KubeSchedulerConfiguration, error) {
	if err := registry.CheckDocument(content); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// The universal decoder applies the defaults and returns the internal type.
	obj, gvk, err := schedscheme.Codecs.UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	decoded, ok := obj.(*schedconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: decoded to %T", name, obj)
	}
	decoded.APIVersion = gvk.GroupVersion().String() // upstream's validation reads it
	if err := registry.ValidateConfiguration(standIns(decoded)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := schedvalidation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return decoded, nil
}

// standIns returns a copy of the configuration without yardsticks, to validate.
func standIns(c *schedconfig.KubeSchedulerConfiguration) *schedconfig.KubeSchedulerConfiguration {
	c = c.DeepCopy()
	for i := range c.Profiles {
		for j := range c.Profiles[i].PluginConfig {
			if args, ok := c.Profiles[i].PluginConfig[j].Args.(*config.GPUDeviceArgs); ok {
				c.Profiles[i].PluginConfig[j].Args, _ = yardsticks.StandIn(args)
			}
		}
	}
	return c
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

// ExpectWorkload returns a copy of the configuration in which every profile whose
// strategy has an expected workload is given these classes instead of learning
// them: what a trace is known to ask for, as the fragmentation paper has it. It is
// an error if there is no such profile.
func ExpectWorkload(c *schedconfig.KubeSchedulerConfiguration, classes []config.GPUDeviceWorkloadClass) (*schedconfig.KubeSchedulerConfiguration, error) {
	given := c.DeepCopy()
	count := 0
	for i := range given.Profiles {
		for j := range given.Profiles[i].PluginConfig {
			args, ok := given.Profiles[i].PluginConfig[j].Args.(*config.GPUDeviceArgs)
			if !ok || !yardsticks.ExpectsWorkload(args.ScoringStrategy.Type) {
				continue
			}
			args.ExpectedWorkload = slices.Clone(classes)
			count++
		}
	}
	if count == 0 {
		return nil, errors.New("no profile has a GPUDevice whose strategy expects a workload")
	}
	if err := registry.ValidateArgs(standIns(given)); err != nil {
		return nil, err
	}
	return given, nil
}
