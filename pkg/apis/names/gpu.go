// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package names

const (
	// GPUMilliResource is the container limit for thousandths of a device: 1 to
	// 999 for a share of one device, a multiple of 1000 for whole devices.
	GPUMilliResource = prefix + "gpu-milli"
	// GPUMemoryResource is the container limit for device memory, in bytes, on
	// each device that the container is given.
	GPUMemoryResource = prefix + "gpu-memory"
)

// ShareResources are the limits by which a container asks for shares of devices. What
// tells such pods from others goes through this list; the policies of manifests/, which
// cannot, are held against it by a test.
var ShareResources = [...]string{GPUMilliResource, GPUMemoryResource}

const (
	// GPUModelAnnotation is the pod annotation that lists the device models a pod
	// accepts: patterns with *, separated by commas, compared without case.
	GPUModelAnnotation = prefix + "gpu-model"
	// GPUMinMemoryAnnotation is the pod annotation with the total memory that
	// every device of the pod must have at least.
	GPUMinMemoryAnnotation = prefix + "gpu-min-memory"
	// GPUAssignedAnnotation is the pod annotation, written by the Binding alone,
	// that records what each container was given.
	GPUAssignedAnnotation = prefix + "gpu-assigned"
	// GPUDevicesAnnotationPrefix is what the pod annotation that a container reads
	// its devices from starts with; the container's name follows. Written by the
	// Binding alone.
	GPUDevicesAnnotationPrefix = "gpu." + prefix
)

// GPUFenceCondition is the type of a pod condition by which a scheduler process makes
// sure that no Binding of a former process is written to the pod any more. Its message
// is the process's own.
const GPUFenceCondition = prefix + "gpu-fence"

const (
	// GPUSharingLabel is the node label that makes a node shared when its value
	// is "true".
	GPUSharingLabel = prefix + "gpu-sharing"
	// GPUPoolLabel is the node label that says to which pool a shared node belongs: its
	// devices are shared by the one scheduler instance that serves the pool. Without it,
	// or with the empty value, a node belongs to the pool without a name.
	GPUPoolLabel = prefix + "gpu-pool"
	// GPUCordonedAnnotation is the node annotation that lists the indexes of
	// devices that take nothing new.
	GPUCordonedAnnotation = prefix + "gpu-cordoned"
	// GPUUUIDsAnnotation is the node annotation that lists the UUIDs of a node's
	// devices, in the order of their indexes.
	GPUUUIDsAnnotation = prefix + "gpu-uuids"
)

// Prefix is what every label, annotation and resource name of ours starts with,
// apart from GPUDevicesAnnotationPrefix.
const Prefix = prefix

// GPUDeviceFragment is the key under which GPUDevice signs a pod (KEP-5598). It
// never appears in the API.
const GPUDeviceFragment = prefix + "gpu-device"
