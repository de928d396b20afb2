// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceclaims has the plugin DeviceClaims, which runs in the place of kube-scheduler's
// DynamicResources and chooses the devices of ResourceClaims, and the nodes, by the strategy that
// GPUDevice uses for shares. DynamicResources takes the first devices that fit, in the order in
// which a driver lists them, and scores nodes by the alternatives of a claim alone (KEP-4970 is open).
//
// # How devices are chosen
//
// Whether a claim can be allocated on a node is always kube-scheduler's answer: its code does the
// allocation, and none of it is copied. DynamicResources reads the cluster through
// fwk.SharedDRAManager, so that others can simulate with it. Filter runs an instance of it (lane)
// that sees one node: the pools with a ResourceSlice for that node, or for all, and what of them is
// allocated. Where package device can model the node's devices and the pod's claims, the lane first sees the
// ResourceSlices without the devices that the strategy does not choose. If that allocation fails, the
// lane sees all devices: the choice never decides whether the pod fits. Reserve then hands the
// state of the lane's DynamicResources to the instance that has the real manager; that
// one does the rest, from Reserve to PreBind, and PostFilter.
//
// Because a lane sees one node, neither the pools of other nodes nor their allocations are looked
// at for it. With dynamic MIG, which has a ResourceSlice for each GPU, that is most of
// what an allocation costs.
//
// # What is modelled
//
// Claims with requests for an exact number of whole devices, or for a part of one device that its driver
// shares by capacity (drivers), where a node has up to 16 devices of one driver and model: package device
// rates the node and chooses the devices, as for shares. Devices that share the counters of a GPU: what
// the counters still admit of the profiles that claims got so far (partitions). Everything else is
// allocated and scored as DynamicResources does it: firstAvailable, constraints, allocationMode All,
// admin access, several drivers on a node, devices that are not local to a node.
//
// # What is left to DynamicResources as it is
//
// Pods of a PodGroup that is scheduled as a whole, pods with a claim that is already allocated, and
// pods with extended resources that a DeviceClass backs.
package deviceclaims
