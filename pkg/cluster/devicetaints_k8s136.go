// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package cluster

// deviceTaintRuleKinds are none: the DeviceTaintRules of 1.36 are off by default.
var deviceTaintRuleKinds []Kind

// DeviceTaintRules returns none.
func (*Cluster) DeviceTaintRules() []DeviceTaintRule { return nil }
