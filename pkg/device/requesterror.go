// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strconv"
)

// RequestReason says why a pod's request for devices is refused. The set is
// closed, so that it can be a metric label.
type RequestReason string

// The reasons for which ParsePod refuses a pod.
const (
	// InvalidMilli is a gpu-milli that is neither a share nor whole devices.
	InvalidMilli RequestReason = "InvalidMilli"
	// InvalidMemory is a gpu-memory that is not a positive number of bytes.
	InvalidMemory RequestReason = "InvalidMemory"
	// InvalidDeviceCount is a device-plugin limit that is not a count.
	InvalidDeviceCount RequestReason = "InvalidDeviceCount"
	// InvalidModel is a gpu-model annotation that is not a list of patterns.
	InvalidModel RequestReason = "InvalidModel"
	// InvalidMinMemory is a gpu-min-memory annotation that is not a positive
	// quantity.
	InvalidMinMemory RequestReason = "InvalidMinMemory"
	// BothForms is a pod that asks for shares and for device-plugin resources.
	BothForms RequestReason = "BothForms"
	// UnknownResource is a resource of our domain that does not exist. Because
	// NodeResourcesFit ignores the domain, nobody else would refuse it.
	UnknownResource RequestReason = "UnknownResource"
	// RequestDiffers is a resource whose request is not its limit.
	RequestDiffers RequestReason = "RequestDiffers"
	// MisplacedResource is one of our resources where containers are not given
	// devices from: pod-level resources or an ephemeral container.
	MisplacedResource RequestReason = "MisplacedResource"
	// TooManyContainers is a pod in which more than MaxAsks containers ask.
	TooManyContainers RequestReason = "TooManyContainers"
	// ConstraintWithoutDevice is an annotation about devices on a pod that asks
	// for none: most likely a misspelt resource.
	ConstraintWithoutDevice RequestReason = "ConstraintWithoutDevice"
)

// RequestError is a request that no node can ever serve. Its text names the
// container, the field, the value and the way out.
type RequestError struct {
	// Reason is the cause, from a closed list.
	Reason RequestReason
	// Container is the name of the container at fault; empty if it is the pod.
	Container string
	// Field is the path of the field, from the pod.
	Field string
	// Value is what stands there; empty if its absence is at fault.
	Value string
	// Detail says what is wrong and what would be right.
	Detail string
}

// Error implements error.
func (e *RequestError) Error() string {
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
