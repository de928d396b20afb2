// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// New computes the report. keys say how nodes describe their devices.
func New(o Objects, keys *device.NodeKeys) *Report {
	c := newComputation(&o, keys)
	var err error
	if c.workload, err = device.TypicalWorkload(slices.Values(o.Pods), keys); err != nil {
		c.report.Notes = append(c.report.Notes, "fragmentation is not measured: "+err.Error())
	}
	byNode := o.byNode()
	nodes := o.Nodes
	if o.NodesUnseen {
		for _, name := range slices.Sorted(maps.Keys(byNode)) {
			c.add(nil, &Node{Name: name, Kind: Unknown}, &device.Node{}, byNode[name])
		}
		nodes = nil
	}
	for _, node := range nodes {
		c.addNode(node, byNode[node.Name])
	}
	c.addWaiting(o.Pods)
	c.addClaimed(&o)
	return c.finish()
}

func newComputation(o *Objects, keys *device.NodeKeys) *computation {
	c := &computation{
		keys:   keys,
		claims: device.Claims{Drivers: device.DefaultDRADrivers(), Keys: keys},
		source: newClaimSource(o),
		models: map[string]*Model{},
		report: &Report{FormatVersion: FormatVersion, OnlyNamespace: o.OnlyNamespace, Nodes: []Node{}, Pods: []Pod{}},
	}
	c.published = publishedOn(o.Slices)
	for _, slice := range o.Slices {
		c.offered = append(c.offered, c.claims.NodesOfSlice(slice))
	}
	return c
}

// computation is a report that is being computed.
type computation struct {
	keys    *device.NodeKeys
	claims  device.Claims
	source  *claimSource
	offered []*device.SliceNodes
	// published is what DRA drivers publish, by node and driver.
	published map[string]map[string]*published
	workload  *device.Workload // nil if no pod asks for devices
	models    map[string]*Model
	report    *Report
}

func (c *computation) finish() *Report {
	r := c.report
	slices.SortFunc(r.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Pods, comparePods)
	r.Namespaces = namespacesOf(r.Pods)
	for _, name := range slices.Sorted(maps.Keys(c.models)) {
		r.Models = append(r.Models, *c.models[name])
	}
	return r
}

var kinds = map[device.NodeKind]NodeKind{
	device.NodeWithoutDevices: NotShared,
	device.NodeShared:         Shared,
	device.NodeDevicePlugin:   DevicePlugin,
	device.NodeInvalid:        Invalid,
	device.NodeInOtherPool:    OtherPool,
}

// parse reads how a node describes its devices.
func (c *computation) parse(object *corev1.Node) *device.Node {
	parsed := device.ParseNode(object, c.keys)
	if slices.ContainsFunc(c.offered, func(nodes *device.SliceNodes) bool { return nodes.Has(object) }) {
		return parsed.PublishedByDRA()
	}
	return parsed
}

// addNode adds a node that was read.
func (c *computation) addNode(object *corev1.Node, pods []*corev1.Pod) {
	parsed := c.parse(object)
	node := &Node{
		Name: object.Name, Kind: kinds[parsed.Kind], Model: parsed.Model, DeviceMemoryMiB: parsed.MemoryMiB,
		Unschedulable: object.Spec.Unschedulable, Pool: object.Labels[names.GPUPoolLabel],
	}
	if parsed.Kind == device.NodeWithoutDevices && len(c.published[object.Name]) > 0 {
		node.Kind = Driver
	}
	node.Isolation = c.isolationOn(node)
	if parsed.Kind == device.NodeInvalid {
		node.Problem = parsed.Invalid.Error()
	}
	c.add(object, node, parsed, pods)
}

// use is what is used of a node's devices while its pods are looked at.
type use struct {
	node    *Node
	parsed  *device.Node
	usage   device.Usage
	counted bool
	cpuFree int64
	// empty is what is idle when the node is empty.
	empty int64
	// allocations are those of the pods whose devices are known, and holders are those pods.
	allocations []*device.Allocation
	holders     []holder
	// some is whether any pod uses devices.
	some bool
}

type holder struct {
	pod  string
	used *device.PodUsage
}

// add adds a node and what its pods use of its devices. A node without devices is left out
// if no pod holds any. object is nil for a node that was not read.
func (c *computation) add(object *corev1.Node, node *Node, parsed *device.Node, pods []*corev1.Pod) {
	u := c.used(object, node, parsed, pods)
	if parsed.Kind == device.NodeWithoutDevices && node.Kind != Driver && !u.some {
		return
	}
	u.listDevices()
	c.report.Nodes = append(c.report.Nodes, *node)
	if node.Kind != Driver {
		c.count(u)
	}
}

// used returns what the pods use of a node's devices.
func (c *computation) used(object *corev1.Node, node *Node, parsed *device.Node, pods []*corev1.Pod) *use {
	u := &use{node: node, parsed: parsed}
	u.usage, u.counted = parsed.Usage()
	u.empty = u.usage.IdleMilli()
	if object != nil {
		u.cpuFree = object.Status.Allocatable.Cpu().MilliValue()
	}
	if parsed.Kind == device.NodeDevicePlugin {
		node.HandedOut = &HandedOut{Devices: int64(parsed.Devices)}
	}
	for _, pod := range pods {
		c.addPod(u, pod)
	}
	return u
}

// addPod adds what a pod uses.
func (c *computation) addPod(u *use, object *corev1.Pod) {
	requests := resourcehelper.PodRequests(object, resourcehelper.PodResourcesOptions{})
	u.cpuFree -= requests.Cpu().MilliValue()
	pod := Pod{
		Namespace: object.Namespace, Name: object.Name, Node: u.node.Name, Model: u.node.Model, SchedulerName: object.Spec.SchedulerName,
	}
	held := c.keys.HeldOn(u.parsed, object)
	if held.Allocation != nil || held.Unknown != nil {
		c.addShares(u, &held, pod)
	}
	plugin := c.keys.HasDevicePluginRequest(object)
	pod.Claimed = c.claimedBy(object)
	onDriver := u.node.Kind == Driver && len(pod.Claimed) > 0
	if !plugin && !onDriver && !c.claims.MayHaveDevices(object, c.source) {
		return
	}
	pod.How = ByClaim
	if plugin {
		pod.How, pod.WholeDevices = ByDevicePlugin, held.Whole
	}
	switch {
	case u.parsed.Kind == device.NodeDevicePlugin:
		u.usage.AddPluginAllocated(pod.WholeDevices)
		u.node.HandedOut.Held += pod.WholeDevices
	case u.parsed.Kind == device.NodeShared:
		pod.Problem = "uses devices of a shared node that were not allocated by Berth: which ones is unknown"
		u.addUnknown(&pod)
	case u.parsed.Kind == device.NodeWithoutDevices && pod.How == ByClaim && !onDriver:
		return // a DRA driver's device is none of a node that Berth knows
	}
	c.addUser(u, pod)
}

// addShares adds what a pod holds that asks for shares.
func (c *computation) addShares(u *use, held *device.Held, pod Pod) {
	pod.How = ByShares
	if held.Unknown != nil {
		pod.Problem = held.Unknown.Error()
		u.addUnknown(&pod)
	}
	if held.Allocation == nil {
		c.addUser(u, pod)
		return
	}
	if missing := held.Allocation.Missing(u.parsed); len(missing) > 0 {
		pod.Problem = fmt.Sprintf("was given devices that the node no longer lists: %v", missing)
	} else if pod.Problem == "" && u.parsed.Kind == device.NodeWithoutDevices && u.node.Kind != Unknown {
		pod.Problem = "holds shares of a node that is not shared: it takes no pod of a device plugin until this one is gone"
	}
	used := &held.Used
	u.usage.Add(used)
	u.allocations = append(u.allocations, held.Allocation)
	u.holders = append(u.holders, holder{pod.key(), used})
	for d := range used.Devices().All() {
		pod.Devices = append(pod.Devices, d)
		pod.Held.MemoryMiB += used[d].MemoryMiB
	}
	pod.Held.Milli = used.Milli()
	c.addUser(u, pod)
}

func (p *Pod) key() string { return p.Namespace + "/" + p.Name }

// addUnknown adds a pod that uses unknown devices: a shared node takes no new share while it
// runs.
func (u *use) addUnknown(pod *Pod) {
	u.node.UnknownUse = append(u.node.UnknownUse, Problem{Pod: pod.key(), Message: pod.Problem})
}

// addUser adds a pod that uses devices.
func (c *computation) addUser(u *use, pod Pod) {
	u.some = true
	if n := len(c.report.Pods); n > 0 && c.report.Pods[n-1].key() == pod.key() {
		// Of a pod with a share and with devices of a device plugin or a claim.
		before := &c.report.Pods[n-1]
		before.WholeDevices += pod.WholeDevices
		before.Claimed = pod.Claimed
		before.Problem = cmp.Or(before.Problem, pod.Problem)
		return
	}
	c.report.Pods = append(c.report.Pods, pod)
}

// listDevices lists the devices of a shared node, and those that are held of any other.
func (u *use) listDevices() {
	conflicts, certain := device.Conflicts(u.parsed, u.allocations)
	devices := 0
	if u.parsed.Kind == device.NodeShared {
		devices = u.parsed.Devices
	}
	for i := range device.MaxDevices {
		d := Device{Index: i, Cordoned: u.parsed.Cordoned.Has(i)}
		if i < len(u.parsed.UUIDs) {
			d.UUID = u.parsed.UUIDs[i]
		}
		for _, h := range u.holders {
			if share := h.used[i]; share != (device.Share{}) {
				d.HeldBy = append(d.HeldBy, Holding{Pod: h.pod, Share: Share(share)})
			}
		}
		if i >= devices && len(d.HeldBy) == 0 {
			continue
		}
		if devices > 0 {
			d.Free = Share(u.usage.Free(i))
		}
		switch {
		case certain.Has(i):
			d.Conflict = GivenTwice
		case devices > 0 && i >= devices:
			d.Conflict = NotThere
		case devices > 0 && conflicts.Has(i):
			d.Conflict = MemoryShrank
		}
		u.node.Devices = append(u.node.Devices, d)
	}
}

// count adds the node to its model.
func (c *computation) count(u *use) {
	m := c.models[u.node.Model]
	if m == nil {
		m = &Model{Name: u.node.Model}
		c.models[u.node.Model] = m
	}
	m.Nodes++
	if h := u.node.HandedOut; h != nil {
		if m.HandedOut == nil {
			m.HandedOut = &HandedOut{}
		}
		m.HandedOut.Devices += h.Devices
		m.HandedOut.Held += h.Held
	}
	for i := range u.node.Devices {
		if u.node.Devices[i].Conflict != "" {
			m.Conflicts++
		}
	}
	if u.parsed.Kind != device.NodeShared || !u.counted {
		return
	}
	m.Devices += u.parsed.Devices
	m.CordonedDevices += u.parsed.Cordoned.Len()
	m.CapacityMilli += u.empty
	allocated, cordoned := u.usage.AllocatedMilli()
	m.AllocatedMilli += allocated
	m.CordonedAllocatedMilli += cordoned
	m.FreeMilli += u.usage.IdleMilli()
	if len(u.node.UnknownUse) > 0 {
		m.BlockedMilli += u.usage.IdleMilli()
	}
	m.FreeDevices += u.usage.Fitting(u.usage.Capacity()).Len()
	if c.workload != nil {
		fragmentation := c.workload.For(u.parsed).Fragmentation(&u.usage, u.cpuFree)
		total := max(0, fragmentation.Total())
		if m.FragmentedMilli != nil {
			total += *m.FragmentedMilli
		}
		m.FragmentedMilli = &total
	}
}
