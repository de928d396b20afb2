// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// ValueUnit is one device in the unit of Tuning.
const ValueUnit = valueUnit

// Tuning is a choice of the constants of FragmentationGradient. TestOpenbStudy tries
// others; it compares with strategies of other packages, so it is not in this one.
type Tuning = tuning

// Constants returns those that are used.
func Constants() Tuning { return constants }

// SetConstants sets the constants and returns those before.
func SetConstants(t Tuning) (before Tuning) {
	before, constants = constants, t
	return before
}
