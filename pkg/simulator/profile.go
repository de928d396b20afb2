// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/baselines"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// profile is a KubeSchedulerConfiguration that is simulated.
type profile struct {
	name string
	file report.File
	// config has the profiles that are used, and no others.
	config *schedconfig.KubeSchedulerConfiguration
	// schedulerName is the profile that schedules every pod; empty if there are
	// several and pods name theirs.
	schedulerName string
	// keys are how it tells the devices of nodes.
	keys *device.NodeKeys
	// oracle is whether it is told in advance which pods will arrive.
	oracle bool

	// What follows depends on the input.

	// workload is what fragmentation is measured against; nil if no pod asks for
	// devices.
	workload *device.Workload
	// cluster is the input's, in the form that the profile understands.
	cluster *cluster.Cluster
	// whole writes the pods of the trace for a profile that knows no shares; nil for
	// one that does.
	whole *trace.WholeDevices
}

// loadProfiles reads the profiles, each once or, if both expected workloads are to
// be compared and that makes a difference, twice.
func loadProfiles(o *Options) ([]*profile, error) {
	var profiles []*profile
	for i, name := range profileNames(o.Profiles) {
		p, err := loadProfile(o.Profiles[i], o.SchedulerName)
		if err != nil {
			return nil, err
		}
		profiles = append(profiles, p.named(name, o.ExpectedWorkload)...)
	}
	return profiles, nil
}

// named names the profile, and returns it with each expected workload that it is to have.
func (p *profile) named(name string, workload ExpectedWorkload) []*profile {
	p.name = name
	var profiles []*profile
	if workload != WorkloadOfInput || !p.learns() {
		profiles = append(profiles, p)
	}
	if workload != WorkloadOfProfile && p.learns() {
		told := *p
		told.oracle, told.name, told.config = true, name+"+oracle", p.config.DeepCopy()
		profiles = append(profiles, &told)
	}
	return profiles
}

// runningProfile is what a profile is called that no file gives.
const runningProfile = "running"

// loadRunning loads the profile of the scheduler that serves the pods that are asked about:
// if they name several, that of the first pod which is not the cluster's own scheduler's.
// Pods of other schedulers are not placed by it.
func (s *Simulation) loadRunning() ([]*profile, error) {
	const option = "--config"
	asked, o := s.input.asked(), &s.options
	if o.Running == nil || s.input.fromTrace() || len(asked) == 0 {
		return nil, optionErrorf(option, "required: the path of a KubeSchedulerConfiguration")
	}
	name := o.SchedulerName
	for _, pod := range asked {
		if name == "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
			name = pod.Spec.SchedulerName
		}
	}
	name = cmp.Or(name, corev1.DefaultSchedulerName)
	running, err := o.Running.For(name)
	if err != nil {
		return nil, optionErrorf(option, "required: %w", err)
	}
	p, err := newProfile(running, o.SchedulerName)
	if err != nil {
		return nil, err
	}
	p.schedulerName = o.SchedulerName
	s.input.notes = append(s.input.notes, "without --config, the profile is that of the running scheduler: "+running.Source)
	return p.named(runningProfile, o.ExpectedWorkload), nil
}

// profileNames calls each profile by its file: by the last part of the path
// without extension or, where two are alike, by the path.
func profileNames(files []string) []string {
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

func loadProfile(file, schedulerName string) (*profile, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	loaded, err := engine.LoadConfiguration(file, content)
	if err != nil {
		return nil, err
	}
	return newProfile(&schedulers.Profile{Source: file, Content: content, Config: loaded}, schedulerName)
}

// newProfile returns a configuration as it is simulated.
func newProfile(loaded *schedulers.Profile, schedulerName string) (*profile, error) {
	p := &profile{file: report.File{Path: loaded.Source, SHA256: hash(loaded.Content)}, config: loaded.Config}
	if schedulerName != "" {
		has := p.schedulerNames()
		i := slices.Index(has, schedulerName)
		if i < 0 {
			return nil, optionErrorf("--scheduler-name", "%s has no profile %q: it has %s", p.file.Path, schedulerName, commaSeparated(has))
		}
		p.config.Profiles = p.config.Profiles[i : i+1]
	}
	if len(p.config.Profiles) == 1 {
		p.schedulerName = p.config.Profiles[0].SchedulerName
	}
	keys := device.DefaultNodeKeys()
	p.keys = &keys
	if args := p.gpuDeviceArgs(); len(args) > 0 {
		p.keys = gpudevice.NodeKeys(args[0])
	}
	return p, nil
}

// schedulerNames are those of the profiles that are used.
func (p *profile) schedulerNames() []string {
	var names []string
	for i := range p.config.Profiles {
		names = append(names, p.config.Profiles[i].SchedulerName)
	}
	return names
}

// gpuDeviceArgs returns the arguments of GPUDevice, which may be changed.
func (p *profile) gpuDeviceArgs() []*config.GPUDeviceArgs { return registry.GPUDeviceArgs(p.config) }

// learns reports whether a profile learns its expected workload.
func (p *profile) learns() bool {
	return slices.ContainsFunc(p.gpuDeviceArgs(), func(args *config.GPUDeviceArgs) bool {
		return baselines.ExpectsWorkload(args.ScoringStrategy.Type) && len(args.ExpectedWorkload) == 0
	})
}

// knowsShares reports whether a profile has the plugin that hands out shares of
// devices.
func (p *profile) knowsShares() bool {
	for i := range p.config.Profiles {
		plugins := p.config.Profiles[i].Plugins
		if plugins == nil {
			continue
		}
		for _, plugin := range slices.Concat(plugins.MultiPoint.Enabled, plugins.Bind.Enabled) {
			if plugin.Name == gpudevice.Name {
				return true
			}
		}
	}
	return false
}

// expect gives the workload to every strategy that expects one, instead of letting
// it learn: what a trace is known to ask for, as the fragmentation paper has it.
func (p *profile) expect(workload *device.Workload) {
	for _, args := range p.gpuDeviceArgs() {
		if baselines.ExpectsWorkload(args.ScoringStrategy.Type) {
			args.ExpectedWorkload = workloadArgs(workload)
		}
	}
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

// report returns what the runs came to. With placements they are listed.
func (p *profile) report(runs []report.Run, placements bool) report.Profile {
	r := report.Profile{
		Name: p.name, File: p.file, SchedulerName: strings.Join(p.schedulerNames(), ","),
		ExpectedWorkload: report.WorkloadFromProfile,
	}
	if p.oracle {
		r.ExpectedWorkload = report.WorkloadFromOracle
	}
	if p.whole != nil {
		r.Shares = report.SharesAsWholeDevices
	}
	r.SetRuns(runs, placements)
	if placements {
		r.Series = nil // a question about some pods has no curves
	}
	return r
}

// hash returns the SHA-256 in hexadecimal.
func hash(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// commaSeparated joins values for a message.
func commaSeparated(values []string) string { return strings.Join(values, ", ") }
