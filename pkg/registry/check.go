// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
	"github.com/berth-scheduler/berth/pkg/plugins/nodecandidates"
)

// ValidateArgs validates the arguments of every plugin of Berth in every
// profile of config, and returns one aggregate of all errors, each with its full
// path from the root of the file, or nil.
func ValidateArgs(config *schedconfig.KubeSchedulerConfiguration) error {
	byName := map[string]Plugin{}
	for _, p := range Plugins() {
		byName[p.Name] = p
	}
	var errs []error
	for i, profile := range config.Profiles {
		for _, pc := range profile.PluginConfig {
			plugin, ours := byName[pc.Name]
			if !ours {
				continue
			}
			// By name, not by index: upstream appends an entry with the defaults
			// for each plugin that has none, at an index that is not in the file.
			path := field.NewPath("profiles").Index(i).Child("pluginConfig").Key(pc.Name).Child("args")
			if err := plugin.validateArgs(path, pc.Args); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return flatten(errs)
}

// validateArgs validates the plugin's arguments. A plugin that takes none is given
// nil.
func (p *Plugin) validateArgs(path *field.Path, args runtime.Object) error {
	switch {
	case p.ValidateArgs != nil:
		return p.ValidateArgs(path, args)
	case args != nil:
		return field.Forbidden(path, p.Name+" takes no arguments")
	}
	return nil
}

// CheckConfiguration checks config as a whole, which no factory can do: it sees
// its own arguments alone, before multiPoint is expanded. effective holds, by
// schedulerName, what each profile runs in the end (framework.ListPlugins).
// It returns one aggregate of all errors or nil.
func CheckConfiguration(config *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) error {
	var errs field.ErrorList
	errs = append(errs, checkLease(config)...)
	errs = append(errs, checkPercentage(config, effective)...)
	errs = append(errs, checkSingle(config, effective)...)
	errs = append(errs, checkOtherBinders(config, effective)...)
	errs = append(errs, checkGPUProfiles(config, effective)...)
	for i := range config.Profiles {
		profile := &config.Profiles[i]
		path := field.NewPath("profiles").Index(i)
		running, ok := effective[profile.SchedulerName]
		if !ok {
			errs = append(errs, field.InternalError(path.Child("schedulerName"), fmt.Errorf("no framework was built for %q", profile.SchedulerName)))
			continue
		}
		for _, plugin := range Plugins() {
			enabled := checkEnabled(path, profile, running, plugin)
			errs = append(errs, enabled...)
			if len(enabled) == 0 && plugin.checkProfile != nil && RunsIn(running, plugin.Name) {
				errs = append(errs, plugin.checkProfile(path, profile, running)...)
			}
		}
		errs = append(errs, checkOutOfTree(path, running)...)
	}
	return errs.ToAggregate()
}

// stockLease is what KubeSchedulerConfiguration defaults to, and what the
// cluster's own scheduler holds.
const (
	stockLeaseNamespace = "kube-system"
	stockLeaseName      = "kube-scheduler"
)

// checkLease refuses the lease of the cluster's own scheduler, with which Berth would
// never become leader, unless Berth is to take that scheduler's place: then
// sharing the lease is what keeps the two from scheduling at the same time.
func checkLease(config *schedconfig.KubeSchedulerConfiguration) field.ErrorList {
	le := config.LeaderElection
	if !le.LeaderElect || le.ResourceNamespace != stockLeaseNamespace || le.ResourceName != stockLeaseName {
		return nil
	}
	if slices.ContainsFunc(config.Profiles, func(p schedconfig.KubeSchedulerProfile) bool {
		return p.SchedulerName == corev1.DefaultSchedulerName
	}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("leaderElection", "resourceName"), le.ResourceName,
		fmt.Sprintf("in namespace %q this is the lease of the cluster's own scheduler (and the default): this scheduler would never become leader: set resourceNamespace and resourceName to a lease of this scheduler's own",
			stockLeaseNamespace))}
}

// checkPercentage refuses a percentageOfNodesToScore of 100 that NodeCandidates, which is to
// leave such a profile alone, is not told of: the framework tells a plugin what its
// profile sets, and not what the configuration sets for all.
func checkPercentage(config *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) field.ErrorList {
	if config.PercentageOfNodesToScore == nil || *config.PercentageOfNodesToScore < 100 {
		return nil
	}
	for i := range config.Profiles {
		profile := &config.Profiles[i]
		if running := effective[profile.SchedulerName]; running == nil || !RunsIn(running, nodecandidates.Name) || profile.PercentageOfNodesToScore != nil {
			continue
		}
		return field.ErrorList{field.Invalid(field.NewPath("percentageOfNodesToScore"), *config.PercentageOfNodesToScore, fmt.Sprintf(
			"would have no effect on the pods that %s finds nodes for: set %s instead, or disable %s there",
			nodecandidates.Name, field.NewPath("profiles").Index(i).Child("percentageOfNodesToScore"), nodecandidates.Name))}
	}
	return nil
}

// checkLabelPresence checks that LabelPresence runs where tenancy needs it.
func checkLabelPresence(path *field.Path, profile *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList {
	for _, entry := range profile.PluginConfig {
		if args, ok := entry.Args.(*config.LabelPresenceArgs); ok && args.Tenancy != nil {
			return labelpresence.CheckOrder(path.Child("plugins"), running)
		}
	}
	return nil
}

// checkNodeCandidates checks that NodeCandidates runs where it has to.
func checkNodeCandidates(path *field.Path, _ *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList {
	return nodecandidates.CheckOrder(path.Child("plugins"), running)
}

// checkEnabled holds what the profile says of one plugin against what it runs.
// A plugin of Berth works at all of its extension points or at none: Filter
// reads what PreFilter prepared, and a preference without Score is silent.
func checkEnabled(path *field.Path, profile *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins, plugin Plugin) field.ErrorList {
	var on, off []string
	for _, point := range extensionPoints {
		if !point.implementedBy(plugin.prototype) {
			continue
		}
		if slices.ContainsFunc(point.enabled(running), func(p schedconfig.Plugin) bool { return p.Name == plugin.Name }) {
			on = append(on, point.name)
		} else {
			off = append(off, point.name)
		}
	}
	switch {
	case len(on) > 0 && len(off) > 0:
		return field.ErrorList{field.Invalid(path.Child("plugins"), plugin.Name,
			fmt.Sprintf("runs at %s but not at %s, where it is needed too: enable it under multiPoint and disable it nowhere",
				strings.Join(on, ", "), strings.Join(off, ", ")))}
	case len(on) == 0:
		for _, pc := range profile.PluginConfig {
			if pc.Name == plugin.Name {
				return field.ErrorList{field.Invalid(path.Child("pluginConfig").Key(pc.Name), plugin.Name,
					"has arguments but is not enabled, so they would have no effect: add it to plugins.multiPoint.enabled, or remove the arguments")}
			}
		}
	}
	return nil
}

// GPUDeviceArgs returns the arguments of GPUDevice in all profiles of the configuration.
func GPUDeviceArgs(cfg *schedconfig.KubeSchedulerConfiguration) []*config.GPUDeviceArgs {
	var found []*config.GPUDeviceArgs
	for i := range cfg.Profiles {
		for _, entry := range cfg.Profiles[i].PluginConfig {
			if args, ok := entry.Args.(*config.GPUDeviceArgs); ok {
				found = append(found, args)
			}
		}
	}
	return found
}

// Runs reports whether any profile runs the plugin anywhere. effective is what
// [CheckConfiguration] gets.
func Runs(effective map[string]*schedconfig.Plugins, name string) bool {
	return len(ProfilesRunning(effective, name)) > 0
}

// ProfilesRunning returns the schedulerNames of the profiles that run the plugin
// anywhere, sorted.
func ProfilesRunning(effective map[string]*schedconfig.Plugins, name string) []string {
	var profiles []string
	for profile, running := range effective {
		if RunsIn(running, name) {
			profiles = append(profiles, profile)
		}
	}
	slices.Sort(profiles)
	return profiles
}

// RunsIn reports whether a profile runs the plugin anywhere. running is what it runs
// in the end.
func RunsIn(running *schedconfig.Plugins, name string) bool {
	return slices.ContainsFunc(extensionPoints, func(point extensionPoint) bool {
		return slices.ContainsFunc(point.enabled(running), func(p schedconfig.Plugin) bool { return p.Name == name })
	})
}

// extensionPoint is one list of a profile, and how to tell whether a plugin
// belongs on it.
type extensionPoint struct {
	name          string
	enabled       func(*schedconfig.Plugins) []schedconfig.Plugin
	implementedBy func(fwk.Plugin) bool
}

func implements[T any](p fwk.Plugin) bool {
	_, ok := p.(T)
	return ok
}

// extensionPoints are those that a plugin of Berth can implement. QueueSort is
// not among them: a profile has one, and all profiles must share it.
var extensionPoints = []extensionPoint{
	{"preEnqueue", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.PreEnqueue.Enabled }, implements[fwk.PreEnqueuePlugin]},
	{"preFilter", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.PreFilter.Enabled }, implements[fwk.PreFilterPlugin]},
	{"filter", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.Filter.Enabled }, implements[fwk.FilterPlugin]},
	{"postFilter", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.PostFilter.Enabled }, implements[fwk.PostFilterPlugin]},
	{"preScore", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.PreScore.Enabled }, implements[fwk.PreScorePlugin]},
	{"score", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.Score.Enabled }, implements[fwk.ScorePlugin]},
	{"reserve", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.Reserve.Enabled }, implements[fwk.ReservePlugin]},
	{"permit", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.Permit.Enabled }, implements[fwk.PermitPlugin]},
	{"preBind", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.PreBind.Enabled }, implements[fwk.PreBindPlugin]},
	{"bind", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.Bind.Enabled }, implements[fwk.BindPlugin]},
	{"postBind", func(p *schedconfig.Plugins) []schedconfig.Plugin { return p.PostBind.Enabled }, implements[fwk.PostBindPlugin]},
}

// flatten turns aggregates within errs into one list, so that the user reads one
// error a line rather than nested brackets.
func flatten(errs []error) error {
	var flat []error
	for _, err := range errs {
		if aggregate, ok := errors.AsType[utilerrors.Aggregate](err); ok {
			flat = append(flat, utilerrors.Flatten(aggregate).Errors()...)
			continue
		}
		flat = append(flat, err)
	}
	return utilerrors.NewAggregate(flat)
}

// typeName returns "config.LabelPresenceArgs" for T.
func typeName[T any]() string { return reflect.TypeFor[T]().String() }

// Running returns the names of all plugins that a profile runs at an extension
// point of a scheduling or binding cycle, each once. running is as in
// [CheckConfiguration].
func Running(running *schedconfig.Plugins) []string {
	var names []string
	for _, point := range extensionPoints {
		for _, p := range point.enabled(running) {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// checkGPUDevice checks what GPUDevice needs of its profile. It has to bind before
// any other binder, which would bind a share without its device; and
// NodeResourcesFit has to ignore the resources that GPUDevice counts, because no
// node advertises them.
func checkGPUDevice(path *field.Path, profile *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	if binders := running.Bind.Enabled; len(binders) > 0 && binders[0].Name != gpudevice.Name {
		errs = append(errs, field.Invalid(path.Child("plugins", "bind", "enabled"), binders[0].Name, fmt.Sprintf(
			"binds before %s, and would bind shares without their devices: list %s under bind.enabled as well as under multiPoint.enabled, before every other binder",
			gpudevice.Name, gpudevice.Name)))
	}
	if !RunsIn(running, pluginnames.NodeResourcesFit) || slices.Contains(fitArgs(profile).IgnoredResourceGroups, names.Domain) {
		return errs
	}
	return append(errs, field.Required(fitPath(path).Child("ignoredResourceGroups"), fmt.Sprintf(
		"with %s it must contain %q: no node advertises those resources, so every node would reject every pod with a share", gpudevice.Name, names.Domain)))
}

// fitPath is where the arguments of NodeResourcesFit stand in a profile.
func fitPath(profile *field.Path) *field.Path {
	return profile.Child("pluginConfig").Key(pluginnames.NodeResourcesFit).Child("args")
}

// fitArgs returns the arguments of NodeResourcesFit; without any, what they are then.
func fitArgs(profile *schedconfig.KubeSchedulerProfile) *schedconfig.NodeResourcesFitArgs {
	for i := range profile.PluginConfig {
		if args, ok := profile.PluginConfig[i].Args.(*schedconfig.NodeResourcesFitArgs); ok {
			return args
		}
	}
	return &schedconfig.NodeResourcesFitArgs{}
}

// checkOtherBinders refuses what would bind a share without its device, past GPUDevice: an
// extender that binds, which upstream asks before all plugins; and a profile without
// GPUDevice whose other plugins do not refuse a resource that no node has.
func checkOtherBinders(cfg *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	shares := names.ShareResources[:]
	sharing := Runs(effective, gpudevice.Name)
	for i := range cfg.Extenders {
		extender, path := &cfg.Extenders[i], field.NewPath("extenders").Index(i)
		if !sharing || extender.BindVerb == "" {
			continue
		}
		if len(extender.ManagedResources) == 0 {
			errs = append(errs, field.Required(path.Child("managedResources"), fmt.Sprintf(
				"without it this extender (bindVerb %q) binds all pods, and with %s would bind shares without their devices: list the resources that it is for, or remove bindVerb", extender.BindVerb, gpudevice.Name)))
		}
		for j := range extender.ManagedResources {
			if name := extender.ManagedResources[j].Name; slices.Contains(shares, name) {
				errs = append(errs, field.Invalid(path.Child("managedResources").Index(j).Child("name"), name, fmt.Sprintf(
					"the extender has a bindVerb, and would bind shares without their devices, which %s gives them: remove the resource, or bindVerb", gpudevice.Name)))
			}
		}
	}
	for i := range cfg.Profiles {
		profile, running := &cfg.Profiles[i], effective[cfg.Profiles[i].SchedulerName]
		if running == nil || RunsIn(running, gpudevice.Name) {
			continue
		}
		path, args := field.NewPath("profiles").Index(i), fitArgs(profile)
		ignored := slices.ContainsFunc(args.IgnoredResources, func(name string) bool { return slices.Contains(shares, name) })
		if ignored || slices.Contains(args.IgnoredResourceGroups, names.Domain) {
			errs = append(errs, field.Invalid(fitPath(path), names.Domain, fmt.Sprintf(
				"the resources of %s are ignored, and %s does not run here: shares would be bound without their devices: enable %s, or remove them from ignoredResourceGroups and ignoredResources", names.Domain, gpudevice.Name, gpudevice.Name)))
		}
		if sharing && !RunsIn(running, pluginnames.NodeResourcesFit) {
			errs = append(errs, field.Required(path.Child("plugins"), fmt.Sprintf(
				"neither %s nor %s runs here, and another profile has %s: shares would be bound without their devices: enable one of the two", pluginnames.NodeResourcesFit, gpudevice.Name, gpudevice.Name)))
		}
	}
	return errs
}

// checkTenancy checks what no profile can know alone. Tenancy holds in a cluster
// only if whoever places pods keeps it, so of one scheduler either all profiles
// have the same tenancy, or none has one. And a schedulerName that ends in
// [names.TenancySuffix] is a promise: the admission policies let the pods of such
// a profile tolerate the taint of tenants' nodes.
func checkTenancy(cfg *schedconfig.KubeSchedulerConfiguration) field.ErrorList {
	var errs field.ErrorList
	first := -1
	for i := range cfg.Profiles {
		if first < 0 && TenancyOf(&cfg.Profiles[i]) != nil {
			first = i
		}
	}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		path := field.NewPath("profiles").Index(i)
		tenancyPath := path.Child("pluginConfig").Key(labelpresence.Name).Child("args", "tenancy")
		tenancy := TenancyOf(profile)
		switch {
		case tenancy == nil && strings.HasSuffix(profile.SchedulerName, names.TenancySuffix):
			errs = append(errs, field.Required(tenancyPath, fmt.Sprintf(
				"the name of the profile, %q, ends in %q, and tenancy's admission policies trust such a profile to keep every pod off other tenants' nodes: give it tenancy, or another name",
				profile.SchedulerName, names.TenancySuffix)))
		case tenancy == nil && first >= 0:
			errs = append(errs, field.Required(tenancyPath, fmt.Sprintf(
				"profiles[%d] (%q) has tenancy, and this profile would place pods on the nodes of any tenant: give both the same tenancy, or run the two profiles in two schedulers, each with its own nodes",
				first, cfg.Profiles[first].SchedulerName)))
		case tenancy != nil:
			errs = append(errs, compareTenancy(tenancyPath, tenancy, first, TenancyOf(&cfg.Profiles[first]))...)
			if !cfg.LeaderElection.LeaderElect && !tenancy.AllowNoLeaderElection {
				errs = append(errs, field.Invalid(field.NewPath("leaderElection", "leaderElect"), false, fmt.Sprintf(
					"profiles[%d] (%q) has tenancy, and without leader election a process with an older tenancy may place pods beside this one: elect a leader, or accept it with %s: true",
					i, profile.SchedulerName, tenancyPath.Child("allowNoLeaderElection"))))
			}
		}
	}
	return errs
}

// TenancyOf returns the tenancy of a profile, or nil.
func TenancyOf(profile *schedconfig.KubeSchedulerProfile) *config.LabelPresenceTenancy {
	for i := range profile.PluginConfig {
		if args, ok := profile.PluginConfig[i].Args.(*config.LabelPresenceArgs); ok && profile.PluginConfig[i].Name == labelpresence.Name {
			return args.Tenancy
		}
	}
	return nil
}

// compareTenancy refuses each field in which a tenancy differs from that of the
// first profile that has one.
func compareTenancy(path *field.Path, tenancy *config.LabelPresenceTenancy, first int, want *config.LabelPresenceTenancy) field.ErrorList {
	var errs field.ErrorList
	compare := func(name string, same bool, value, wanted any) {
		if !same {
			errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf(
				"must be as in profiles[%d], %v: all profiles must agree on which tenant a node belongs to", first, wanted)))
		}
	}
	compare("nodeLabelKey", tenancy.NodeLabelKey == want.NodeLabelKey, tenancy.NodeLabelKey, want.NodeLabelKey)
	compare("nodeTaintKey", tenancy.NodeTaintKey == want.NodeTaintKey, tenancy.NodeTaintKey, want.NodeTaintKey)
	compare("namespaceLabelKey", tenancy.NamespaceLabelKey == want.NamespaceLabelKey, tenancy.NamespaceLabelKey, want.NamespaceLabelKey)
	compare("tenants", tenancy.Tenants == want.Tenants, tenancy.Tenants, want.Tenants)
	compare("exemptNamespaces", sets.New(tenancy.ExemptNamespaces...).Equal(sets.New(want.ExemptNamespaces...)), tenancy.ExemptNamespaces, want.ExemptNamespaces)
	return errs
}
