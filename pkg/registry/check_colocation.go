// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
)

// checkColocation checks what Colocation needs of its profile: to be the last at
// PreFilter. It asks the filters of all plugins whether the pod fits on a node near
// its peers, and a plugin that has not prepared itself yet cannot answer.
func checkColocation(path *field.Path, _ *schedconfig.KubeSchedulerProfile, running *schedconfig.Plugins) field.ErrorList {
	enabled := running.PreFilter.Enabled
	if last := enabled[len(enabled)-1].Name; last != colocation.Name {
		return field.ErrorList{field.Invalid(path.Child("plugins"), last, fmt.Sprintf(
			"comes after %s at preFilter, and %s has to be the last there: list it behind all others under multiPoint.enabled, or where they are listed under preFilter.enabled",
			colocation.Name, colocation.Name))}
	}
	return nil
}
