// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
)

// checkColocation checks what Colocation needs of its profile: its PostFilter has to
// run before preemption, which ends PostFilter when it finds victims. A pod whose
// offered nodes turn out not to fit is to look at all nodes before anybody is
// evicted. multiPoint alone puts the default plugins first.
func checkColocation(path *field.Path, _ *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList {
	at := func(name string) int {
		return slices.IndexFunc(running.PostFilter.Enabled, func(p schedconfig.Plugin) bool { return p.Name == name })
	}
	preemption := at(pluginnames.DefaultPreemption)
	if preemption < 0 || at(colocation.Name) < preemption {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("plugins", "postFilter", "enabled"), pluginnames.DefaultPreemption, fmt.Sprintf(
		"runs before %s, and would evict pods for one that fits without: list %s under postFilter.enabled as well as under multiPoint.enabled, before %s",
		colocation.Name, colocation.Name, pluginnames.DefaultPreemption))}
}
