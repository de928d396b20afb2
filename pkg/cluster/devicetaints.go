// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import resourcev1 "k8s.io/api/resource/v1"

// DeviceTaintRule is a DeviceTaintRule that taints devices.
type DeviceTaintRule struct {
	Name string
	// Driver, Pool and Device select the devices; nil is any.
	Driver, Pool, Device *string
	Taint                resourcev1.DeviceTaint
}

// Selects reports whether the rule taints the device.
func (r *DeviceTaintRule) Selects(driver, pool, device string) bool {
	matches := func(selector *string, value string) bool { return selector == nil || *selector == value }
	return matches(r.Driver, driver) && matches(r.Pool, pool) && matches(r.Device, device)
}
