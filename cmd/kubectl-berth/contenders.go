// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/yardsticks"
)

// contender is a profile that is simulated.
type contender struct {
	name string
	file report.File
	// config is the whole file. It must not be changed.
	config *schedconfig.KubeSchedulerConfiguration
	// schedulerName is the profile that schedules every pod; empty if the file has
	// several and pods name theirs.
	schedulerName string
	// oracle is whether the profile is told in advance which pods will arrive.
	oracle bool
}

// loadContenders reads the profiles, each once or, if both expected workloads are
// to be compared and that makes a difference, twice.
func loadContenders(o *simulateOptions) ([]contender, error) {
	var contenders []contender
	for i, name := range contenderNames(o.configs) {
		c, err := loadContender(o.configs[i], o.schedulerName)
		if err != nil {
			return nil, err
		}
		c.name = name
		if o.expectedWorkload != workloadOracle || !c.learns() {
			contenders = append(contenders, c)
		}
		if o.expectedWorkload != workloadProfile && c.learns() {
			c.oracle = true
			c.name += "+oracle"
			contenders = append(contenders, c)
		}
	}
	return contenders, nil
}

// contenderNames calls each profile by its file: by the last part of the path
// without extension or, where two are alike, by the path.
func contenderNames(files []string) []string {
	names := make([]string, len(files))
	count := map[string]int{}
	for i, file := range files {
		base := filepath.Base(file)
		names[i] = strings.TrimSuffix(base, filepath.Ext(base))
		count[names[i]]++
	}
	for i, file := range files {
		if count[names[i]] > 1 {
			names[i] = file
		}
	}
	return names
}

func loadContender(file, schedulerName string) (contender, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return contender{}, fmt.Errorf("--config: %w", err)
	}
	c := contender{file: report.File{Path: file, SHA256: hash(content)}, schedulerName: schedulerName}
	if c.config, err = engine.LoadConfiguration(file, content); err != nil {
		return contender{}, err
	}
	names := c.profileNames()
	if schedulerName != "" && !slices.Contains(names, schedulerName) {
		return contender{}, usagef("--scheduler-name: %s has no profile %q: it has %s", file, schedulerName, strings.Join(names, ", "))
	}
	if len(names) == 1 {
		c.schedulerName = names[0]
	}
	return c, nil
}

// profileNames are the schedulerNames in the file.
func (c *contender) profileNames() []string {
	var names []string
	for i := range c.config.Profiles {
		names = append(names, c.config.Profiles[i].SchedulerName)
	}
	return names
}

// used are the profiles that may schedule pods.
func (c *contender) used() []string {
	if c.schedulerName != "" {
		return []string{c.schedulerName}
	}
	return c.profileNames()
}

// learns reports whether a profile that is used learns its expected workload.
func (c *contender) learns() bool {
	for _, args := range c.gpuDeviceArgs(c.config) {
		if yardsticks.ExpectsWorkload(args.ScoringStrategy.Type) && len(args.ExpectedWorkload) == 0 {
			return true
		}
	}
	return false
}

// knowsShares reports whether a profile that is used has the plugin that hands out
// shares of devices.
func (c *contender) knowsShares() bool {
	for i := range c.config.Profiles {
		p := &c.config.Profiles[i]
		if !slices.Contains(c.used(), p.SchedulerName) || p.Plugins == nil {
			continue
		}
		for _, set := range []*schedconfig.PluginSet{&p.Plugins.MultiPoint, &p.Plugins.Bind} {
			if slices.ContainsFunc(set.Enabled, func(plugin schedconfig.Plugin) bool { return plugin.Name == gpudevice.Name }) {
				return true
			}
		}
	}
	return false
}

// gpuDeviceArgs returns the arguments of GPUDevice in those profiles of the
// configuration that are used.
func (c *contender) gpuDeviceArgs(in *schedconfig.KubeSchedulerConfiguration) []*config.GPUDeviceArgs {
	var found []*config.GPUDeviceArgs
	for i := range in.Profiles {
		if !slices.Contains(c.used(), in.Profiles[i].SchedulerName) {
			continue
		}
		for _, entry := range in.Profiles[i].PluginConfig {
			if args, ok := entry.Args.(*config.GPUDeviceArgs); ok {
				found = append(found, args)
			}
		}
	}
	return found
}

// keys are how the profile tells the devices of nodes.
func (c *contender) keys() *device.NodeKeys {
	return engine.DeviceKeys(c.config, c.schedulerName)
}

// What the arguments of GPUDevice take as an expected workload.
const (
	maxClasses = 128
	maxWeight  = 1_000_000
)

// workloadArgs writes a workload as the arguments of GPUDevice have it: of very many
// classes the heaviest, and weights beyond what is allowed in proportion.
func workloadArgs(workload *device.Workload) []config.GPUDeviceWorkloadClass {
	heaviest := workload.Classes()
	heaviest = heaviest[:min(len(heaviest), maxClasses)]
	classes := make([]config.GPUDeviceWorkloadClass, 0, len(heaviest))
	divisor := int64(1)
	if len(heaviest) > 0 {
		divisor += (heaviest[0].Weight - 1) / maxWeight
	}
	for _, class := range heaviest {
		classes = append(classes, config.GPUDeviceWorkloadClass{
			Weight:       max(1, class.Weight/divisor),
			CPU:          *resource.NewMilliQuantity(class.CPUMilli, resource.DecimalSI),
			GPUMilli:     class.Milli * int64(max(1, class.Devices)),
			GPUMemory:    *resource.NewQuantity(class.MemoryMiB<<20, resource.BinarySI),
			GPUModel:     class.Models.String(),
			GPUMinMemory: *resource.NewQuantity(class.MinMemoryMiB<<20, resource.BinarySI),
		})
	}
	return classes
}

// hash returns the SHA-256 in hexadecimal.
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
