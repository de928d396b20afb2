// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// defaultColocationWeight is that of a rule and of a Service.
const defaultColocationWeight = 1

// SetDefaults_ColocationArgs fills what is missing and leaves the rest alone;
// what is wrong is for validation. Every value is fresh, so that no two objects
// share memory.
func SetDefaults_ColocationArgs(obj *ColocationArgs) {
	if obj.TopologyKeys == nil {
		obj.TopologyKeys = []string{corev1.LabelHostname, corev1.LabelTopologyZone}
	}
	for i := range obj.Rules {
		rule := &obj.Rules[i]
		if rule.Weight == nil {
			rule.Weight = ptr.To[int32](defaultColocationWeight)
		}
		for k := range rule.Services {
			if rule.Services[k].Weight == nil {
				rule.Services[k].Weight = ptr.To[int32](defaultColocationWeight)
			}
		}
	}
}
