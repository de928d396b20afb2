// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package draslices generates the ResourceSlices and DeviceClasses that the drivers of
// GPUs publish, for clusters of any size without a GPU: tests, benchmarks and
// demonstrations. Names of devices, attributes, capacities and counters are the drivers'
// own. What only hardware knows (UUIDs, PCI addresses) is made up from the names of the
// node and of the device, so that equal arguments give equal objects.
package draslices

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Layout is how a driver publishes the GPUs of a node.
type Layout string

const (
	// Whole is NVIDIA's driver without MIG: one device for each GPU, in one slice for each
	// node.
	Whole Layout = "whole"
	// DynamicMIG is NVIDIA's driver with dynamic MIG: the pool of a node has slices of
	// counter sets, and for each GPU a slice with the whole and every placement of every
	// profile. All of them consume the counters of their GPU.
	DynamicMIG Layout = "dynamic-mig"
	// HAMi is the driver of HAMi-core: one device for each GPU, which several claims share
	// by cores (percent) and memory.
	HAMi Layout = "hami"
)

// Layouts returns every Layout, each call a fresh slice.
func Layouts() []Layout { return []Layout{Whole, DynamicMIG, HAMi} }

// The drivers, and the DeviceClasses that they are installed with.
const (
	NVIDIADriver = "gpu.nvidia.com"
	HAMiDriver   = "hami-core-gpu.project-hami.io"
	// MIGClass is the class of MIG devices; the other classes have their driver's name.
	MIGClass = "mig.nvidia.com"
)

// Driver returns the name of the layout's driver.
func (l Layout) Driver() string {
	if l == HAMi {
		return HAMiDriver
	}
	return NVIDIADriver
}

// Classes returns the DeviceClasses that the layout's driver is installed with.
func (l Layout) Classes() []*resourcev1.DeviceClass {
	if l == HAMi {
		return []*resourcev1.DeviceClass{newClass(HAMiDriver, HAMiDriver, typeHAMi)}
	}
	classes := []*resourcev1.DeviceClass{newClass(NVIDIADriver, NVIDIADriver, typeGPU)}
	if l == DynamicMIG {
		classes = append(classes, newClass(MIGClass, NVIDIADriver, typeMIG))
	}
	return classes
}

func newClass(name, driver, deviceType string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: "DeviceClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == '%s' && device.attributes['%s'].type == '%s'", driver, driver, deviceType),
		}}}},
	}
}

// Slices returns the ResourceSlices of a node with this many GPUs. Their names sort as the
// drivers' do: in the order of the pool.
func (l Layout) Slices(node string, gpus int, model Model) []*resourcev1.ResourceSlice {
	var specs []resourcev1.ResourceSliceSpec
	switch l {
	case DynamicMIG:
		specs = dynamicMIG(node, gpus, &model)
	case Whole, HAMi:
		devices, newDevice := make([]resourcev1.Device, 0, gpus), gpuDevice
		if l == HAMi {
			newDevice = hamiDevice
		}
		for i := range gpus {
			devices = append(devices, newDevice(node, i, &model))
		}
		for part := range slices.Chunk(devices, resourcev1.ResourceSliceMaxDevices) {
			specs = append(specs, resourcev1.ResourceSliceSpec{Devices: part})
		}
	}
	list := make([]*resourcev1.ResourceSlice, 0, len(specs))
	for i := range specs {
		specs[i].Driver, specs[i].NodeName = l.Driver(), ptr.To(node)
		specs[i].Pool = resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(specs))}
		list = append(list, &resourcev1.ResourceSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%03x-%s-%s", i, l.Driver(), node)},
			Spec:       specs[i],
		})
	}
	return list
}

// What the attribute type of a device is.
const (
	typeGPU  = "gpu"
	typeMIG  = "mig"
	typeHAMi = "hami-gpu"
)

// gpuDevice returns a GPU that one claim gets as a whole.
func gpuDevice(node string, index int, model *Model) resourcev1.Device {
	return resourcev1.Device{
		Name:       fmt.Sprintf("gpu-%d", index),
		Attributes: model.attributes(node, index, typeGPU),
		Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: mebibytes(model.MemoryMiB)}},
	}
}

// hamiDevice returns a GPU of which a claim that says nothing gets the whole.
func hamiDevice(node string, index int, model *Model) resourcev1.Device {
	memory, cores := mebibytes(model.MemoryMiB), *resource.NewQuantity(100, resource.DecimalSI)
	policy := func(whole, step resource.Quantity) *resourcev1.CapacityRequestPolicy {
		return &resourcev1.CapacityRequestPolicy{
			Default:    &whole,
			ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &step, Max: &whole, Step: &step},
		}
	}
	return resourcev1.Device{
		Name:                     fmt.Sprintf("hami-gpu-%d", index),
		Attributes:               model.attributes(node, index, typeHAMi),
		AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"cores":  {Value: cores, RequestPolicy: policy(cores, *resource.NewQuantity(1, resource.DecimalSI))},
			"memory": {Value: memory, RequestPolicy: policy(memory, mebibytes(1))},
		},
	}
}

// attributes returns those that both drivers set on a GPU.
func (m *Model) attributes(node string, index int, deviceType string) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
	attributes := m.commonAttributes(index, deviceType)
	attributes["uuid"] = text("GPU-" + uuidOf(fmt.Sprintf("%s/%d", node, index)))
	attributes["minor"] = resourcev1.DeviceAttribute{IntValue: ptr.To(int64(index))}
	return attributes
}

// commonAttributes returns those that a GPU and its MIG devices share.
func (m *Model) commonAttributes(index int, deviceType string) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
	version := func(version string) resourcev1.DeviceAttribute {
		return resourcev1.DeviceAttribute{VersionValue: &version}
	}
	return map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"type":                            text(deviceType),
		"productName":                     text(m.ProductName),
		"brand":                           text(m.Brand),
		"architecture":                    text(m.Architecture),
		"cudaComputeCapability":           version(m.ComputeCapability),
		"driverVersion":                   version("580.82.7"),
		"cudaDriverVersion":               version("13.0.0"),
		"resource.kubernetes.io/pciBusID": text(fmt.Sprintf("0000:%02x:00.0", 16+index)),
		// Two GPUs share a root complex.
		"resource.kubernetes.io/pcieRoot": text(fmt.Sprintf("pci0000:%02x", index/2)),
	}
}

func text(value string) resourcev1.DeviceAttribute {
	return resourcev1.DeviceAttribute{StringValue: &value}
}

func mebibytes(amount int64) resource.Quantity {
	return *resource.NewQuantity(amount<<20, resource.BinarySI)
}

// uuidOf returns a UUID that is made up from a name.
func uuidOf(name string) string {
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	return strings.Join([]string{hash[:8], hash[8:12], hash[12:16], hash[16:20], hash[20:32]}, "-")
}
