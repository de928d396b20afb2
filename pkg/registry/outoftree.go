// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"maps"
	"slices"

	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// GangPlugin is the name of the plugin that places gangs. It is built on Kubernetes 1.36
// alone; on a newer one a profile that names it decodes, and no scheduler starts with it.
const GangPlugin = "Coscheduling"

// outOfTreePlugin is a plugin of another project that the binary has compiled in.
// What Berth promises of its own plugins (batching, narrow events, validation
// with field paths) does not hold for it, so it is not among [Plugins].
type outOfTreePlugin struct {
	name    string
	factory frameworkruntime.PluginFactory
	// sortsQueue says that the plugin is of no use unless it also orders the
	// queue.
	sortsQueue bool
	// single says that one profile of a process may run the plugin: each has an account
	// of its own of what pods were given.
	single bool
	// resources are what the plugin, and the scheduler on its behalf, watch in the
	// API beside Kubernetes' own.
	resources []CustomResource
	// podLabels are the keys of the pod labels that it reads.
	podLabels []string
}

// CustomResource is a resource of a CustomResourceDefinition that a profile needs.
// Until the API server serves it, a scheduler with such a profile waits for its
// informers and places nothing.
type CustomResource struct {
	schema.GroupVersionResource
	// Plugin is the name of the plugin that needs it.
	Plugin string
	// Definition is the file in this repository that defines it.
	Definition string
	// Verbs are what the plugin does with it beside list and watch.
	Verbs []string
}

// outOfTreePlugins returns every plugin that is compiled in and not Berth's.
func outOfTreePlugins() []outOfTreePlugin {
	return []outOfTreePlugin{{
		name:       GangPlugin,
		factory:    newCoscheduling,
		sortsQueue: true,
		resources: []CustomResource{{
			GroupVersionResource: v1alpha1.SchemeGroupVersion.WithResource("podgroups"),
			Plugin:               GangPlugin,
			Definition:           "manifests/components/gang/podgroups.yaml",
		}},
		podLabels: []string{podgroup.Label},
	}, {
		name:    NUMAPlugin,
		factory: newNUMAMatch,
		single:  true,
		resources: []CustomResource{{
			GroupVersionResource: topologyv1alpha2.SchemeGroupVersion.WithResource("noderesourcetopologies"),
			Plugin:               NUMAPlugin,
			Definition:           "manifests/components/numa/noderesourcetopologies.yaml",
			Verbs:                []string{"get"},
		}},
	}}
}

// CustomResources returns what the out-of-tree plugins of any profile need the API
// server to serve. effective is what [CheckConfiguration] gets.
func CustomResources(effective map[string]*schedconfig.Plugins) []CustomResource {
	var needed []CustomResource
	for _, plugin := range outOfTreePlugins() {
		if slices.ContainsFunc(slices.Collect(maps.Values(effective)), plugin.enabled) {
			needed = append(needed, plugin.resources...)
		}
	}
	return needed
}

// Gangs returns the resource in which gangs are described, nil if no profile places
// any.
func Gangs(effective map[string]*schedconfig.Plugins) *CustomResource {
	for _, resource := range CustomResources(effective) {
		if resource.Plugin == GangPlugin {
			return &resource
		}
	}
	return nil
}

// enabled reports whether a profile runs the plugin anywhere.
func (p outOfTreePlugin) enabled(running *schedconfig.Plugins) bool {
	return sortsQueue(running, p.name) || RunsIn(running, p.name)
}

func sortsQueue(running *schedconfig.Plugins, name string) bool {
	return slices.ContainsFunc(running.QueueSort.Enabled, func(p schedconfig.Plugin) bool { return p.Name == name })
}

// checkOutOfTree refuses a profile that runs an out-of-tree plugin in a way that looks as
// if it worked.
func checkOutOfTree(path *field.Path, running *schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	for _, plugin := range outOfTreePlugins() {
		if plugin.sortsQueue && plugin.enabled(running) && !sortsQueue(running, plugin.name) {
			errs = append(errs, field.Invalid(path.Child("plugins", "queueSort", "enabled"), running.QueueSort.Enabled[0].Name, fmt.Sprintf(
				"%s runs in this profile but does not order the queue, so gangs would interleave and wait for each other's devices: enable %s under multiPoint and disable %s there, in every profile of this file",
				plugin.name, plugin.name, running.QueueSort.Enabled[0].Name)))
		}
	}
	return errs
}

// checkSingle refuses a file that runs an out-of-tree plugin in more profiles than it
// bears.
func checkSingle(config *schedconfig.KubeSchedulerConfiguration, effective map[string]*schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	for _, plugin := range outOfTreePlugins() {
		first := ""
		for i := range config.Profiles {
			name := config.Profiles[i].SchedulerName
			running, ok := effective[name]
			switch {
			case !plugin.single || !ok || !plugin.enabled(running):
			case first == "":
				first = name
			default:
				errs = append(errs, field.Invalid(field.NewPath("profiles").Index(i).Child("plugins"), plugin.name, fmt.Sprintf(
					"runs in profile %q too, and one profile alone may run it: each would give away what the other gave before; give the pods of both one schedulerName", first)))
			}
		}
	}
	return errs
}
