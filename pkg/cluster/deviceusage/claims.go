// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/output"
)

// Accounted is what [Isolation] says of memory or compute that is only counted: a container
// that takes more than its part is not stopped.
const Accounted = "accounted"

// Isolation says whether pods on a node are kept within their parts of its devices.
type Isolation struct {
	// Driver is the DRA driver of the devices; empty for shares, which Berth allocates.
	Driver string `json:"driver,omitempty"`
	// Devices is how many the driver publishes for the node, partitions included; 0 for
	// shares.
	Devices int `json:"devices,omitempty"`
	// Memory and Compute are [Accounted] or "enforced by DRIVER"; empty for devices without
	// memory of their own, such as network interfaces.
	Memory  string `json:"memory,omitempty"`
	Compute string `json:"compute,omitempty"`
}

// Claimed is a device, or a part of one, that a ResourceClaim has.
type Claimed struct {
	// Node is the node of the claim's pods, or the one for which the device is published;
	// empty if neither is known.
	Node string `json:"node,omitempty"`
	// Namespace is the claim's.
	Namespace string `json:"namespace"`
	// Pods are the names of the pods that use the claim (status.reservedFor); they share the
	// device without anything between them.
	Pods                []string `json:"pods,omitempty"`
	cluster.ClaimDevice `json:",inline"`
}

// enforcing are the drivers that keep each claim within its part of a device that several
// claims share. A device that one claim has alone is kept to it by any driver.
var enforcing = []string{draslices.HAMiDriver}

// published is what a driver publishes for a node.
type published struct {
	devices int
	// memory is whether a device has memory, and shared whether several claims can have one.
	memory, shared bool
}

// publishedOn returns what each driver publishes for each node, by node and driver: the
// newest generation of each pool.
func publishedOn(list []*resourcev1.ResourceSlice) map[string]map[string]*published {
	byNode := map[string]map[string]*published{}
	for _, slice := range cluster.CurrentSlices(list) {
		node, driver := ptr.Deref(slice.Spec.NodeName, ""), slice.Spec.Driver
		if node == "" {
			continue
		}
		if byNode[node] == nil {
			byNode[node] = map[string]*published{}
		}
		if byNode[node][driver] == nil {
			byNode[node][driver] = &published{}
		}
		p := byNode[node][driver]
		p.devices += len(slice.Spec.Devices)
		for i := range slice.Spec.Devices {
			_, memory := slice.Spec.Devices[i].Capacity["memory"]
			p.memory = p.memory || memory
			p.shared = p.shared || ptr.Deref(slice.Spec.Devices[i].AllowMultipleAllocations, false)
		}
	}
	return byNode
}

// isolationOn returns what keeps pods within their parts of the node's devices: of shares
// first, then of each driver by name.
func (c *computation) isolationOn(node *Node) []Isolation {
	var all []Isolation
	if node.Kind == Shared {
		all = append(all, Isolation{Memory: Accounted, Compute: Accounted})
	}
	for driver, p := range c.published[node.Name] {
		isolation := Isolation{Driver: driver, Devices: p.devices}
		if p.memory {
			how := "enforced by " + driver
			if p.shared && !slices.Contains(enforcing, driver) {
				how = Accounted
			}
			isolation.Memory, isolation.Compute = how, how
		}
		all = append(all, isolation)
	}
	slices.SortFunc(all, func(a, b Isolation) int { return cmp.Compare(a.Driver, b.Driver) })
	return all
}

// claimedBy returns the devices of a pod's claims.
func (c *computation) claimedBy(pod *corev1.Pod) []cluster.ClaimDevice {
	var devices []cluster.ClaimDevice
	for _, name := range cluster.ClaimsOf(pod) {
		if claim, err := c.source.Claim(pod.Namespace, name); err == nil {
			devices = append(devices, cluster.DevicesOf(claim)...)
		}
	}
	return devices
}

// addClaimed adds the devices of all claims.
func (c *computation) addClaimed(o *Objects) {
	type key struct{ driver, pool string }
	nodes, pools := map[string]string{}, map[key]string{}
	for _, pod := range o.Pods {
		nodes[pod.Namespace+"/"+pod.Name] = pod.Spec.NodeName
	}
	for _, slice := range o.Slices {
		pools[key{slice.Spec.Driver, slice.Spec.Pool.Name}] = ptr.Deref(slice.Spec.NodeName, "")
	}
	for _, claim := range o.Claims {
		var pods []string
		node := ""
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.APIGroup == "" && consumer.Resource == "pods" {
				pods = append(pods, consumer.Name)
				node = cmp.Or(node, nodes[claim.Namespace+"/"+consumer.Name])
			}
		}
		slices.Sort(pods)
		for _, device := range cluster.DevicesOf(claim) {
			c.report.Claimed = append(c.report.Claimed, Claimed{
				Node: cmp.Or(pools[key{device.Driver, device.Pool}], node), Namespace: claim.Namespace, Pods: pods, ClaimDevice: device,
			})
		}
	}
	slices.SortStableFunc(c.report.Claimed, func(a, b Claimed) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	})
}

// claimTable has a row for each device of a claim.
func (r *Report) claimTable() *Table {
	t := &Table{Key: 6, Header: []string{"NODE", "DRIVER", "POOL", "DEVICE", "NAMESPACE", "CLAIM", "PODS", "CONSUMED", "MEMORY", "COMPUTE"}}
	for i := range r.Claimed {
		held := &r.Claimed[i]
		isolation := r.isolationOf(held)
		t.Rows = append(t.Rows, []string{
			held.Node, held.Driver, held.Pool, held.Device, held.Namespace, held.Claim, output.List(held.Pods, maxHolders), held.consumed(), isolation.Memory, isolation.Compute,
		})
	}
	return t
}

// isolationOf returns what is said of the device's driver on its node.
func (r *Report) isolationOf(held *Claimed) Isolation {
	for i := range r.Nodes {
		for _, isolation := range r.Nodes[i].Isolation {
			if r.Nodes[i].Name == held.Node && isolation.Driver == held.Driver {
				return isolation
			}
		}
	}
	return Isolation{}
}

// consumed writes how much of the device the claim has.
func (c *Claimed) consumed() string {
	if c.AdminAccess {
		return "admin access"
	}
	return cmp.Or(c.Share(), "whole")
}

// claimRows adds to the table of devices those of a node that claims have.
func (r *Report) claimRows(t *Table, node *Node, wide bool) {
	for i := range r.Claimed {
		held := &r.Claimed[i]
		if held.Node != node.Name {
			continue
		}
		users := make([]string, 0, len(held.Pods))
		for _, pod := range held.Pods {
			users = append(users, held.Namespace+"/"+pod)
		}
		t.Rows = append(t.Rows, pick(wide, []string{
			node.Name, node.Model, held.Pool + "/" + held.Device, "", fmt.Sprintf("%s (%s)", output.List(users, maxHolders), held.consumed()), "claim " + held.Namespace + "/" + held.Claim,
		}, "", ""))
	}
}

// publishedBy writes what drivers publish for the node, and what they enforce.
func (n *Node) publishedBy() []string {
	var parts []string
	for _, i := range n.Isolation {
		if i.Driver == "" {
			continue
		}
		text := output.Count(i.Devices, "device") + " of " + i.Driver
		switch {
		case i.Memory == Accounted:
			text += ", accounted"
		case i.Memory != "":
			text += ", enforced"
		}
		parts = append(parts, text)
	}
	return parts
}

// isolation writes what is said of memory or of compute, for the wide table of nodes.
func (n *Node) isolation(dimension func(*Isolation) string) string {
	var parts []string
	for i := range n.Isolation {
		if text := dimension(&n.Isolation[i]); text != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}
