// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

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
	if !RunsIn(running, pluginnames.NodeResourcesFit) {
		return errs
	}
	argsPath := path.Child("pluginConfig").Key(pluginnames.NodeResourcesFit).Child("args", "ignoredResourceGroups")
	for _, pc := range profile.PluginConfig {
		if pc.Name != pluginnames.NodeResourcesFit {
			continue
		}
		args, ok := pc.Args.(*schedconfig.NodeResourcesFitArgs)
		if ok && slices.Contains(args.IgnoredResourceGroups, names.Domain) {
			return errs
		}
	}
	return append(errs, field.Required(argsPath, fmt.Sprintf(
		"with %s it must contain %q: no node advertises those resources, so every pod with a share would be refused everywhere", gpudevice.Name, names.Domain)))
}
