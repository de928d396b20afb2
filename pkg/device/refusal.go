// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "fmt"

// RefusalReason says why a node takes nothing new. The set is closed, so that it
// can be a metric label.
type RefusalReason string

// The reasons for which ParseNode refuses a node.
const (
	// InvalidSharing is a gpu-sharing label that is neither "true" nor "false".
	InvalidSharing RefusalReason = "InvalidSharing"
	// AdvertisesDevicePlugin is a shared node with a device-plugin resource: two
	// parties would hand out the same devices.
	AdvertisesDevicePlugin RefusalReason = "AdvertisesDevicePlugin"
	// OffersDRA is a shared node whose devices a DRA driver offers: two parties would
	// hand them out.
	OffersDRA RefusalReason = "OffersDRA"
	// TimeSliced is a shared node whose devices are time-sliced already.
	TimeSliced RefusalReason = "TimeSliced"
	// Partitioned is a shared node with MIG devices.
	Partitioned RefusalReason = "Partitioned"
	// InvalidCount is a shared node without a usable number of devices.
	InvalidCount RefusalReason = "InvalidCount"
	// InvalidDeviceMemory is a shared node without a usable memory per device.
	InvalidDeviceMemory RefusalReason = "InvalidDeviceMemory"
	// InvalidReplicas is a shared node whose replicas label is not a number.
	InvalidReplicas RefusalReason = "InvalidReplicas"
	// InvalidCordon is a gpu-cordoned annotation that is not a list of devices:
	// the wish to keep some device free is clear, which one is not.
	InvalidCordon RefusalReason = "InvalidCordon"
	// InvalidUUIDs is a gpu-uuids annotation that does not name every device.
	InvalidUUIDs RefusalReason = "InvalidUUIDs"
)

// Refusal is why a node takes nothing new.
type Refusal struct {
	// Reason is the cause, from a closed list; empty if the node is not refused.
	Reason RefusalReason
	// Field is the path of the field at fault, from the node.
	Field string
	// Value is what stands there; empty if its absence is at fault.
	Value string
	// Detail says what is wrong and what would be right.
	Detail string
}

// String names the field, the value and the way out.
func (r Refusal) String() string {
	if r.Value == "" {
		return fmt.Sprintf("%s: %s", r.Field, r.Detail)
	}
	return fmt.Sprintf("%s: %q %s", r.Field, shorten(r.Value), r.Detail)
}
