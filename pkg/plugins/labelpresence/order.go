// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// CheckOrder returns what keeps tenancy from working in a profile that runs the plugin, whose
// plugins are at path. It has to be the first in PreFilter and in Filter: what another plugin
// says about a node that tenancy keeps from the pod would reach the pod's owner, and
// preemption would try that node. multiPoint alone puts the default plugins first.
func CheckOrder(path *field.Path, running *schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	for _, point := range []struct {
		name    string
		enabled []schedconfig.Plugin
	}{{"preFilter", running.PreFilter.Enabled}, {"filter", running.Filter.Enabled}} {
		if first := point.enabled[0].Name; first != Name {
			errs = append(errs, field.Invalid(path.Child(point.name, "enabled"), first, fmt.Sprintf(
				"runs before %s with tenancy, and tells tenants about the nodes of others: list %s first under %s.enabled, as well as under multiPoint.enabled",
				Name, Name, point.name)))
		}
	}
	return errs
}
