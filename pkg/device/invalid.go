// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strconv"
)

// InvalidReason says why what a pod asks for or a node says of its devices is invalid.
// The set is closed, so that it can be a metric label.
type InvalidReason string

// The reasons for which ParsePod refuses a pod.
const (
	// InvalidMilli is a gpu-milli that is neither a share nor whole devices.
	InvalidMilli InvalidReason = "InvalidMilli"
	// InvalidMemory is a gpu-memory that is not a positive number of bytes.
	InvalidMemory InvalidReason = "InvalidMemory"
	// InvalidDeviceCount is a device-plugin limit that is not a count.
	InvalidDeviceCount InvalidReason = "InvalidDeviceCount"
	// InvalidModel is a gpu-model annotation that is not a list of patterns.
	InvalidModel InvalidReason = "InvalidModel"
	// InvalidMinMemory is a gpu-min-memory annotation that is not a positive
	// quantity.
	InvalidMinMemory InvalidReason = "InvalidMinMemory"
	// BothForms is a pod that asks for shares and for device-plugin resources.
	BothForms InvalidReason = "BothForms"
	// UnknownResource is a resource of our domain that does not exist. Because
	// NodeResourcesFit ignores the domain, nobody else would refuse it.
	UnknownResource InvalidReason = "UnknownResource"
	// RequestDiffers is a resource whose request is not its limit.
	RequestDiffers InvalidReason = "RequestDiffers"
	// MisplacedResource is one of our resources where containers are not given
	// devices from: pod-level resources or an ephemeral container.
	MisplacedResource InvalidReason = "MisplacedResource"
	// TooManyContainers is a pod in which more than MaxContainers containers ask.
	TooManyContainers InvalidReason = "TooManyContainers"
	// ConstraintWithoutDevice is an annotation about devices on a pod that asks
	// for none: most likely a misspelled resource.
	ConstraintWithoutDevice InvalidReason = "ConstraintWithoutDevice"
)

// The reasons for which ParseNode finds a node invalid.
const (
	// InvalidSharing is a gpu-sharing label that is neither "true" nor "false".
	InvalidSharing InvalidReason = "InvalidSharing"
	// AdvertisesDevicePlugin is a shared node with a device-plugin resource: two
	// parties would hand out the same devices.
	AdvertisesDevicePlugin InvalidReason = "AdvertisesDevicePlugin"
	// PublishesDRADevices is a shared node whose devices a DRA driver publishes: two parties
	// would allocate them. The label's value is older.
	PublishesDRADevices InvalidReason = "OffersDRA"
	// TimeSliced is a shared node whose devices are time-sliced already.
	TimeSliced InvalidReason = "TimeSliced"
	// Partitioned is a shared node with MIG devices.
	Partitioned InvalidReason = "Partitioned"
	// InvalidCount is a shared node without a usable number of devices.
	InvalidCount InvalidReason = "InvalidCount"
	// InvalidDeviceMemory is a shared node without a usable memory per device.
	InvalidDeviceMemory InvalidReason = "InvalidDeviceMemory"
	// InvalidReplicas is a shared node whose replicas label is not a number.
	InvalidReplicas InvalidReason = "InvalidReplicas"
	// InvalidCordon is a gpu-cordoned annotation that is not a list of devices:
	// that some device is to be kept free is clear, which one is not.
	InvalidCordon InvalidReason = "InvalidCordon"
	// InvalidUUIDs is a gpu-uuids annotation that does not name every device.
	InvalidUUIDs InvalidReason = "InvalidUUIDs"
)

// InvalidError is a field of a pod whose request no node can ever serve, or of a node
// that takes nothing new because of it.
type InvalidError struct {
	// Reason is the cause, from a closed list; empty if nothing is invalid.
	Reason InvalidReason
	// Container is the name of the container at fault; empty if it is the pod or a node.
	Container string
	// Field is the path of the field, from the object.
	Field string
	// Value is what stands there; empty if its absence is at fault.
	Value string
	// Detail says what is wrong and what would be right.
	Detail string
}

// Error names the container, the field, the value and what to do.
func (e InvalidError) Error() string {
	who := ""
	if e.Container != "" {
		who = "container " + strconv.Quote(e.Container) + ": "
	}
	if e.Value == "" {
		return fmt.Sprintf("%s%s: %s", who, e.Field, e.Detail)
	}
	return fmt.Sprintf("%s%s: %q %s", who, e.Field, shorten(e.Value), e.Detail)
}

// shorten keeps hostile values out of events and logs at full length.
func shorten(value string) string {
	const limit = 80
	if len(value) <= limit {
		return value
	}
	return value[:limit] + "..."
}
