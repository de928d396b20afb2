// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/baselines"
)

// newFrameworks builds the profiles as scheduler.New does, from the same registry
// and with the same handles, and holds them to the checks that berth-scheduler
// makes at its start.
func (e *Engine) newFrameworks(ctx context.Context, config *schedconfig.KubeSchedulerConfiguration, opts Options) (profile.Map, error) {
	plugins, err := e.newRegistry(opts.Preemption)
	if err != nil {
		return nil, err
	}
	if err := plugins.Merge(opts.extra); err != nil {
		return nil, err
	}
	e.keepInstances(plugins)
	draManager, err := compat.NewDRAManager(ctx, e.informers, e.api)
	if err != nil {
		return nil, err
	}
	profiles, err := profile.NewMap(ctx, config.Profiles, plugins, func(string) events.EventRecorderLogger { return e.events }, append(compat.WithSnapshot(e.snapshot),
		frameworkruntime.WithComponentConfigVersion(config.APIVersion),
		frameworkruntime.WithClientSet(e.api),
		frameworkruntime.WithInformerFactory(e.informers),
		frameworkruntime.WithSharedDRAManager(draManager),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(e.informers.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithParallelism(e.parallelism),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithPodGroupManager(e.cache),
	)...)
	if err != nil {
		return nil, err
	}
	effective := make(map[string]*schedconfig.Plugins, len(profiles))
	for name, fw := range profiles {
		fw.SetPodNominator(e.nominator)
		fw.SetPodActivator(e.activated)
		effective[name] = fw.ListPlugins()
		e.setPreBind(name, effective[name])
	}
	if err := registry.CheckConfiguration(config, effective); err != nil {
		return nil, err
	}
	return profiles, nil
}

// keepInstances has the factories leave what they make in e.instances: a framework
// keeps its plugins to itself, and runs them up to the first that rejects a node.
func (e *Engine) keepInstances(plugins frameworkruntime.Registry) {
	e.instances = map[string]map[string]fwk.Plugin{}
	for name, factory := range plugins {
		plugins[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, handle)
			if err != nil {
				return nil, err
			}
			if e.instances[handle.ProfileName()] == nil {
				e.instances[handle.ProfileName()] = map[string]fwk.Plugin{}
			}
			e.instances[handle.ProfileName()][name] = plugin
			return plugin, nil
		}
	}
}

// newRegistry returns the plugins that are compiled into berth-scheduler, but for
// three things: those of other projects cannot be built, preemption evicts before it
// returns instead of in a goroutine, or nothing at all, and GPUDevice takes a baseline
// for a strategy too.
func (e *Engine) newRegistry(preemption bool) (frameworkruntime.Registry, error) {
	r := plugins.NewInTreeRegistry()
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	gates.EnableAsyncPreemption = false
	r[defaultpreemption.Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := defaultpreemption.New(ctx, args, handle, gates)
		if err != nil {
			return nil, err
		}
		return optionalPreemption{plugin, &e.preempts}, nil
	}
	if !preemption {
		r[defaultpreemption.Name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return noPreemption{}, nil }
	}

	ours := sets.New[string]()
	for _, plugin := range registry.Plugins() {
		ours.Insert(plugin.Name)
	}
	outOfTree := registry.New()
	outOfTree[gpudevice.Name] = baselines.New
	for name := range outOfTree {
		if !ours.Has(name) {
			outOfTree[name] = notSimulated(name)
		}
	}
	return r, r.Merge(outOfTree)
}

// optionalPreemption is DefaultPreemption that can be switched off.
type optionalPreemption struct {
	*defaultpreemption.DefaultPreemption
	on *bool
}

var (
	_ fwk.PreEnqueuePlugin = optionalPreemption{}
	_ fwk.PostFilterPlugin = optionalPreemption{}
)

// PostFilter preempts, or does what [noPreemption] does.
func (p optionalPreemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !*p.on {
		return noPreemption{}.PostFilter(ctx, state, pod, nodes)
	}
	return p.DefaultPreemption.PostFilter(ctx, state, pod, nodes)
}

// noPreemption stands in for DefaultPreemption where nothing is to be evicted. Other
// PostFilter plugins run as ever.
type noPreemption struct{}

var (
	_ fwk.PreEnqueuePlugin = noPreemption{}
	_ fwk.PostFilterPlugin = noPreemption{}
)

// Name returns the name of the plugin that it stands in for.
func (noPreemption) Name() string { return defaultpreemption.Name }

// PreEnqueue lets every pod in: no eviction is under way.
func (noPreemption) PreEnqueue(context.Context, *corev1.Pod) *fwk.Status { return nil }

// PostFilter finds nothing, and says nothing.
func (noPreemption) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// notSimulated is the factory of a plugin that needs a cluster of its own.
func notSimulated(name string) frameworkruntime.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return nil, fmt.Errorf("%s cannot be simulated: it makes an API client of its own; choose another profile (--scheduler-name), or a copy of the file without it", name)
	}
}
