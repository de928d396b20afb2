// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package cluster

import resourcev1 "k8s.io/api/resource/v1"

// deviceTaintRuleKinds is the kind of DeviceTaintRules, which older API servers do not serve.
var deviceTaintRuleKinds = []Kind{optIn(kind(resourcev1.SchemeGroupVersion, "devicetaintrules", false, &resourcev1.DeviceTaintRule{}, func(c api, _ string) pages {
	return page(c.ResourceV1().DeviceTaintRules().List)
}))}

// DeviceTaintRules returns the rules that taint devices, in the order of the input.
func (c *Cluster) DeviceTaintRules() []DeviceTaintRule {
	var rules []DeviceTaintRule
	for _, object := range c.others {
		if rule, ok := object.(*resourcev1.DeviceTaintRule); ok && rule.Spec.DeviceSelector != nil {
			selector := rule.Spec.DeviceSelector
			rules = append(rules, DeviceTaintRule{Name: rule.Name, Driver: selector.Driver, Pool: selector.Pool, Device: selector.Device, Taint: rule.Spec.Taint})
		}
	}
	return rules
}
