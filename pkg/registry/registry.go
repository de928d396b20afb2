// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry is the one list of Berth's plugins, and of the out-of-tree ones
// that are compiled in beside them. The scheduler binary, the
// simulator and the tests all build their frameworks from it, and check a
// KubeSchedulerConfiguration with it, so that what one of them accepts the
// others accept too.
package registry

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	_ "github.com/berth-scheduler/berth/pkg/apis/config/scheme" // the plugins' arguments decode
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
	"github.com/berth-scheduler/berth/pkg/plugins/nodecandidates"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
)

// Plugin is one entry of the registry.
type Plugin struct {
	// Name is the plugin's name in a profile. Its arguments have the kind
	// <Name>Args.
	Name string
	// New builds the plugin. It validates its arguments itself.
	New frameworkruntime.PluginFactory
	// ValidateArgs validates the plugin's arguments, which must be of the
	// internal type, and gathers every error below path. Nil if it takes none.
	ValidateArgs func(path *field.Path, args runtime.Object) error
	// checkProfile checks a profile that enables the plugin as a whole: what it
	// says, and what it runs in the end. Nil if the plugin asks nothing of others.
	checkProfile func(path *field.Path, profile *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList
	// podAnnotations are the keys of the pod annotations that the plugin reads.
	podAnnotations []string
	// prototype has the plugin's type. Only its method set is looked at: the
	// extension points at which the plugin has to be enabled.
	prototype fwk.Plugin
}

// Plugins returns every plugin of Berth, each call a fresh slice.
func Plugins() []Plugin {
	return []Plugin{
		{
			Name:         labelpresence.Name,
			New:          labelpresence.New,
			ValidateArgs: typed(validation.ValidateLabelPresenceArgs),
			checkProfile: checkLabelPresence,
			prototype:    (*labelpresence.LabelPresence)(nil),
		},
		{
			Name:         gpudevice.Name,
			New:          gpudevice.New,
			ValidateArgs: typed(validation.ValidateGPUDeviceArgs),
			checkProfile: checkGPUDevice,
			podAnnotations: []string{
				names.GPUModelAnnotation, names.GPUMinMemoryAnnotation, names.GPUAssignedAnnotation,
			},
			prototype: (*gpudevice.GPUDevice)(nil),
		},
		{
			Name:         colocation.Name,
			New:          colocation.New,
			ValidateArgs: typed(validation.ValidateColocationArgs),
			podAnnotations: []string{
				names.ColocateWithAnnotation, names.ColocateTopologyKeysAnnotation, names.ColocateRequiredTopologyKeyAnnotation,
			},
			prototype: (*colocation.Colocation)(nil),
		},
		{
			Name:         nodecandidates.Name,
			New:          nodecandidates.New,
			checkProfile: checkNodeCandidates,
			prototype:    (*nodecandidates.NodeCandidates)(nil),
		},
		{
			Name:         deviceclaims.Name,
			New:          deviceclaims.New,
			checkProfile: deviceclaims.CheckProfile,
			prototype:    (*deviceclaims.DeviceClaims)(nil),
		},
	}
}

// New returns the plugins, Berth's and the out-of-tree ones, as an out-of-tree
// registry of the scheduler framework.
func New() frameworkruntime.Registry {
	r := frameworkruntime.Registry{}
	for _, p := range Plugins() {
		r[p.Name] = p.New
	}
	for _, p := range outOfTreePlugins() {
		r[p.name] = p.factory
	}
	return r
}

// PodKeys returns the labels and annotations of a pod that mean something, each
// with the plugin that reads it.
func PodKeys() []unknownkeys.Key {
	keys := []unknownkeys.Key{{Name: names.BenchLabel, Label: true}}
	for _, p := range Plugins() {
		for _, name := range p.podAnnotations {
			keys = append(keys, unknownkeys.Key{Name: name, Plugin: p.Name})
		}
	}
	for _, renamed := range [...][2]string{
		{names.FormerColocatePreferAnnotation, names.ColocateTopologyKeysAnnotation},
		{names.FormerColocateRequireWithinAnnotation, names.ColocateRequiredTopologyKeyAnnotation},
	} {
		keys = append(keys, unknownkeys.Key{Name: renamed[0], Plugin: colocation.Name, Former: renamed[1]})
	}
	for _, p := range outOfTreePlugins() {
		for _, name := range p.podLabels {
			keys = append(keys, unknownkeys.Key{Name: name, Label: true, Plugin: p.name})
		}
	}
	return keys
}

// typed adapts a validator of one kind of arguments to any object. An object of
// another type is an error: the scheme decodes <Name>Args for <Name> only.
func typed[T any, P interface {
	*T
	runtime.Object
}](validate func(*field.Path, P) error,
) func(*field.Path, runtime.Object) error {
	return func(path *field.Path, args runtime.Object) error {
		want, ok := args.(P)
		if !ok {
			return field.TypeInvalid(path, args, "want "+typeName[T]())
		}
		return validate(path, want)
	}
}
