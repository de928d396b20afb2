// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

// driver says how a DRA driver names the capacities of a device.
type driver struct {
	// compute and memory are the names; compute is empty if the driver shares none.
	compute, memory resourcev1.QualifiedName
	// model is the attribute with the model of the device.
	model resourcev1.QualifiedName
}

// drivers are those whose devices package device can model.
var drivers = map[string]driver{
	"gpu.nvidia.com":                {memory: "memory", model: "productName"},
	"hami-core-gpu.project-hami.io": {compute: "cores", memory: "memory", model: "productName"},
	"gpu.example.com":               {memory: "memory", model: "model"},
}

const bytesPerMiB = 1 << 20

// demand is one request of a claim: an exact number of devices, or a part of one.
type demand struct {
	count int
	// capacity is what is asked of the device; nil for what it gives by default.
	capacity map[resourcev1.QualifiedName]resource.Quantity
}

// claimsToAllocate returns the claims of a pod if all of them are to be allocated in this
// cycle, and nil if the pod is one of those that are left to DynamicResources.
func (pl *DeviceClaims) claimsToAllocate(cs fwk.CycleState, pod *corev1.Pod) []*resourcev1.ResourceClaim {
	if pl.manager == nil || len(pod.Spec.ResourceClaims) == 0 || cs.IsPodGroupSchedulingCycle() || pl.hasExtendedResources(pod) {
		return nil
	}
	claims := pl.claimsOf(pod)
	for _, claim := range claims {
		if claim.Status.Allocation != nil || pl.manager.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			return nil
		}
	}
	return claims
}

// claimsOf returns the claims of a pod, nil if one of them is not there.
func (pl *DeviceClaims) claimsOf(pod *corev1.Pod) []*resourcev1.ResourceClaim {
	var claims []*resourcev1.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			return nil
		}
		claim, err := pl.manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil
		}
		claims = append(claims, claim)
	}
	return claims
}

// hasExtendedResources reports whether the pod requests a resource that a DeviceClass backs.
func (pl *DeviceClaims) hasExtendedResources(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if pl.manager.DeviceClassResolver().GetDeviceClass(name) != nil {
					return true
				}
			}
		}
	}
	return false
}

// demandOf returns what the claims ask for, nil if package device has no model of it.
func demandOf(claims []*resourcev1.ResourceClaim) []demand {
	var all []demand
	for _, claim := range claims {
		if len(claim.Spec.Devices.Constraints) > 0 {
			return nil
		}
		for i := range claim.Spec.Devices.Requests {
			exactly := claim.Spec.Devices.Requests[i].Exactly
			if exactly == nil || exactly.AllocationMode != resourcev1.DeviceAllocationModeExactCount ||
				exactly.AdminAccess != nil && *exactly.AdminAccess || exactly.Count < 1 || exactly.Count > device.MaxDevices {
				return nil
			}
			d := demand{count: int(exactly.Count)}
			if exactly.Capacity != nil {
				d.capacity = exactly.Capacity.Requests
			}
			all = append(all, d)
		}
	}
	if len(all) > device.MaxContainers {
		return nil
	}
	return all
}

// devicesOf is how many devices the claims ask for.
func devicesOf(demands []demand) int {
	sum := 0
	for i := range demands {
		sum += demands[i].count
	}
	return sum
}

// maxNode is the largest node of the cluster. How many devices it has is not looked up: the
// most that the model holds.
func maxNode(nodes []fwk.NodeInfo) device.MaxNode {
	most := device.MaxNode{GPUMilli: device.MaxDevices * device.MilliPerDevice}
	for _, node := range nodes {
		most.CPUMilli = max(most.CPUMilli, node.GetAllocatable().GetMilliCPU())
	}
	return most
}

// nodeModel is the devices of a node as package device counts them. It is read-only.
type nodeModel struct {
	driver driver
	node   device.Node
	// ids are those of the devices by index.
	ids []structured.DeviceID
	kindOfDevice

	// capacity is the first device's.
	capacity map[resourcev1.QualifiedName]resourcev1.DeviceCapacity
}

// requestKind is what of the node request depends on. That nodes of a driver differ in the defaults
// for a claim that asks for no amount is not expected.
func (m *nodeModel) requestKind() requestKind {
	return requestKind{driver: m.ids[0].Driver.String(), shared: m.shared, memoryMiB: m.memoryMiB, compute: m.compute}
}

// maxCompute bounds what a device has of compute, so that nothing here overflows.
const maxCompute = 1 << 50

// newNodeModel returns nil if the devices cannot be modelled.
func newNodeModel(list []*resourcev1.ResourceSlice) *nodeModel {
	if len(list) == 0 {
		return nil
	}
	first := &list[0].Spec
	known, ok := drivers[first.Driver]
	if !ok {
		return nil
	}
	m := &nodeModel{driver: known, node: device.Node{Kind: device.NodeShared}}
	for _, slice := range list {
		spec := &slice.Spec
		// More pools, or slices of more than one generation, are not worth a rule.
		if spec.Driver != first.Driver || spec.Pool != first.Pool || spec.NodeName == nil || len(spec.SharedCounters) > 0 {
			return nil
		}
		for i := range spec.Devices {
			if !m.add(spec, &spec.Devices[i]) {
				return nil
			}
		}
	}
	if m.node.Devices = len(m.ids); m.node.Devices == 0 {
		return nil
	}
	return m
}

// kindOfDevice is what all devices of a model have in common.
type kindOfDevice struct {
	shared bool
	// compute is what of it each has, and memoryMiB its memory.
	compute, memoryMiB int64
	model              string
}

// kindOf returns false if package device has no model of the device.
func (d *driver) kindOf(of *resourcev1.Device) (kindOfDevice, bool) {
	kind := kindOfDevice{shared: of.AllowMultipleAllocations != nil && *of.AllowMultipleAllocations}
	kind.memoryMiB = max(1, mebibytes(of.Capacity[d.memory].Value))
	if attribute, ok := of.Attributes[d.model]; ok && attribute.StringValue != nil {
		kind.model = strings.ToLower(*attribute.StringValue)
	}
	if d.compute != "" {
		compute := of.Capacity[d.compute].Value
		kind.compute = compute.Value()
	}
	if kind.shared && (kind.compute < 1 || kind.compute > maxCompute) {
		return kind, false
	}
	return kind, len(of.ConsumesCounters) == 0 && kind.memoryMiB <= device.MaxMemoryMiB
}

// add adds a device. It is false if the model cannot hold it beside the others.
func (m *nodeModel) add(spec *resourcev1.ResourceSliceSpec, d *resourcev1.Device) bool {
	kind, ok := m.driver.kindOf(d)
	if !ok || len(m.ids) == device.MaxDevices {
		return false
	}
	if len(m.ids) == 0 {
		m.kindOfDevice, m.capacity = kind, d.Capacity
		m.node.MemoryMiB, m.node.Model = kind.memoryMiB, kind.model
	}
	if kind != m.kindOfDevice {
		return false
	}
	if len(d.BindingConditions) > 0 || isTainted(d.Taints) {
		m.node.Cordoned = m.node.Cordoned.With(len(m.ids))
	}
	m.ids = append(m.ids, structured.MakeDeviceID(spec.Driver, spec.Pool.Name, d.Name))
	return true
}

func isTainted(taints []resourcev1.DeviceTaint) bool {
	for i := range taints {
		if effect := taints[i].Effect; effect == resourcev1.DeviceTaintEffectNoSchedule || effect == resourcev1.DeviceTaintEffectNoExecute {
			return true
		}
	}
	return false
}

// mebibytes rounds up, as a pod's limit is.
func mebibytes(q resource.Quantity) int64 {
	bytes := q.Value()
	return bytes/bytesPerMiB + min(1, bytes%bytesPerMiB)
}

// consumed is what claims that share a device have of it.
func (m *nodeModel) consumed(amounts structured.ConsumedCapacity) device.Share {
	return m.share(func(name resourcev1.QualifiedName) (resource.Quantity, bool) {
		if q := amounts[name]; q != nil {
			return *q, true
		}
		return resource.Quantity{}, false
	})
}

// share is the part of a device with these amounts of its capacities; the whole of one that has none.
func (m *nodeModel) share(amount func(resourcev1.QualifiedName) (resource.Quantity, bool)) device.Share {
	part := device.Share{Milli: device.MilliPerDevice, MemoryMiB: m.node.MemoryMiB}
	if q, ok := amount(m.driver.compute); ok && m.compute > 0 {
		// A request for more than a device has is not one of parts, see request.
		part.Milli = (min(q.Value(), 2*m.compute)*device.MilliPerDevice + m.compute - 1) / m.compute
	}
	if q, ok := amount(m.driver.memory); ok {
		part.MemoryMiB = mebibytes(q)
	}
	return part
}

// request returns what the claims ask of this node's devices; nil if package device has
// no model of it.
func (m *nodeModel) request(demands []demand) *device.Request {
	r := &device.Request{Kind: device.RequestShares, Containers: make([]device.ContainerRequest, 0, len(demands))}
	for i := range demands {
		share := device.Share{Milli: device.MilliPerDevice, MemoryMiB: m.node.MemoryMiB}
		switch {
		case m.shared:
			share = m.share(func(name resourcev1.QualifiedName) (resource.Quantity, bool) {
				if q, ok := asked(demands[i].capacity, name, m.ids[0].Driver.String()); ok {
					return q, true
				}
				if policy := m.capacity[name].RequestPolicy; policy != nil && policy.Default != nil {
					return *policy.Default, true
				}
				return resource.Quantity{}, false
			})
			if demands[i].count > 1 && share.Milli < device.MilliPerDevice {
				return nil
			}
		case len(demands[i].capacity) > 0:
			return nil // a minimum of what a whole device has: kube-scheduler knows
		}
		if share.Milli < 1 || share.Milli > device.MilliPerDevice || share.MemoryMiB < 1 {
			return nil
		}
		r.Containers = append(r.Containers, device.ContainerRequest{Devices: demands[i].count, Milli: share.Milli, MemoryMiB: share.MemoryMiB})
	}
	return r
}

// asked returns the amount of a capacity in a request, which may name its domain.
func asked(capacity map[resourcev1.QualifiedName]resource.Quantity, name resourcev1.QualifiedName, domain string) (resource.Quantity, bool) {
	if q, ok := capacity[name]; ok {
		return q, true
	}
	q, ok := capacity[resourcev1.QualifiedName(domain)+"/"+name]
	return q, ok
}
