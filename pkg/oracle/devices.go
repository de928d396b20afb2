// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Devices is how the devices of the nodes are allocated.
type Devices struct {
	// Violations are sorted by kind and object.
	Violations Violations
	// All are the devices of the nodes that share them, by node and index.
	All []Device
	// Allocated is how many thousandths pods were given, by model in lower case, as far
	// as their records are right. Models of which none is allocated are there too, with 0.
	Allocated map[string]int64
	// Bound and Pending count the pods with shares that have a node and those that do
	// not; terminated ones count as neither.
	Bound, Pending int
	// Blocked are the nodes with a pod that uses shares without a right record of which.
	Blocked sets.Set[string]

	// rivals are the schedulers of one GPU pool that are each other's strangers.
	rivals []string
	nodes  map[string]*nodeDevices
}

// Device is one device of a shared node.
type Device struct {
	// Node and Model are as the node's name and label say.
	Node, Model string
	// Index counts from zero.
	Index int
	// MemoryMiB is what the device has. Compute is 1000 thousandths always.
	MemoryMiB int64
	// FreeMilli and FreeMiB are what is not allocated. They are negative if more is
	// allocated than there is.
	FreeMilli, FreeMiB int64
	// Allocations are in the order of the pods' names.
	Allocations []Allocation
}

// Allocation is a part of a device that a container was given.
type Allocation struct {
	// Pod is namespace/name.
	Pod, Container   string
	Milli, MemoryMiB int64
}

// nodeDevices are the devices of one node. A device is named by its UUID where its node
// lists UUIDs or a container reads one, and otherwise by its index.
type nodeDevices struct {
	node   *corev1.Node
	shared sharedNode
	shares bool
	uuids  []string
	byName map[string]*deviceUse
	// closed: something else uses devices of the node, or nobody knows which.
	closed bool
	// givers are the schedulers of the pods with shares.
	givers sets.Set[string]
}

// deviceUse is what pods were given of one device, at the worst moment of their lives.
type deviceUse struct {
	amount      amount
	pods        []string
	allocations []Allocation
}

// name returns the name of a device that a container reads.
func (n *nodeDevices) name(reads string) string {
	if i, err := strconv.Atoi(reads); err == nil && i < len(n.uuids) {
		return n.uuids[i]
	}
	return reads
}

// use returns what is allocated of a device.
func (n *nodeDevices) use(name string) *deviceUse {
	if n.byName[name] == nil {
		n.byName[name] = &deviceUse{}
	}
	return n.byName[name]
}

// CheckDevices checks the state that the two lists show. They must be of one moment, or
// of a time in which nothing changes. Rivals are schedulers of different instances that
// serve one GPU pool by mistake, and have from the beginning; see [Devices.ClosedTo].
func CheckDevices(nodes []corev1.Node, pods []corev1.Pod, rivals ...string) *Devices {
	d := &Devices{Allocated: map[string]int64{}, Blocked: sets.New[string](), rivals: rivals, nodes: map[string]*nodeDevices{}}
	for i := range nodes {
		n := &nodeDevices{node: &nodes[i], uuids: readUUIDs(&nodes[i]), byName: map[string]*deviceUse{}, givers: sets.New[string]()}
		if n.shared, n.shares = readNode(n.node); n.shares {
			d.Allocated[n.modelKey()] += 0
		}
		d.nodes[n.node.Name] = n
	}
	var pending []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		switch {
		case terminated(pod):
		case pod.Spec.NodeName != "":
			d.addBound(pod)
		case requestsDevices(pod):
			d.Pending++
			pending = append(pending, pod)
			d.Violations = append(d.Violations, torn(pod)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[name]
		d.Violations = append(d.Violations, n.overcommitted()...)
		for i := range n.shared.devices {
			use := n.use(n.name(strconv.Itoa(i)))
			slices.SortStableFunc(use.allocations, func(a, b Allocation) int { return cmp.Compare(a.Pod, b.Pod) })
			d.All = append(d.All, Device{
				Node: name, Model: n.shared.model, Index: i, MemoryMiB: n.shared.mib,
				FreeMilli: whole - use.amount.milli, FreeMiB: n.shared.mib - use.amount.mib, Allocations: use.allocations,
			})
		}
	}
	for _, pod := range pending {
		d.checkPending(pod)
	}
	d.Violations.sorted()
	return d
}

func (n *nodeDevices) modelKey() string { return strings.ToLower(cmp.Or(n.shared.model, "unknown")) }

// addBound counts what a bound pod uses.
func (d *Devices) addBound(pod *corev1.Pod) {
	n, nodeExists := d.nodes[pod.Spec.NodeName]
	if nodeExists && RequestsOther(pod) {
		n.closed = true
	}
	requests, err := readRequests(pod)
	if err != nil {
		d.Violations.add(InvalidRequest, podName(pod), "%v", err)
		return
	}
	if len(requests) == 0 {
		if _, given := pod.Annotations[recordAnnotation]; given {
			d.Violations.add(WrongRecord, podName(pod), "has annotation %s and requests no devices", recordAnnotation)
		}
		return
	}
	d.Bound++
	d.Violations = append(d.Violations, torn(pod)...)
	record, err := readRecord(pod)
	if err != nil {
		d.Violations.add(Unrecorded, podName(pod), "%v", err)
		d.Blocked.Insert(pod.Spec.NodeName)
	}
	if !nodeExists {
		d.Violations.add(WrongNode, podName(pod), "is on node %q, which does not exist", pod.Spec.NodeName)
		return
	}
	for _, refusal := range refusals(pod, n.node) {
		d.Violations.add(WrongNode, podName(pod), "%s", refusal)
	}
	if err != nil {
		return
	}
	n.allocate(pod, requests, record)
	if !n.shares {
		return
	}
	if wrong := n.checkRecord(pod, requests, record); len(wrong) > 0 {
		d.Violations = append(d.Violations, wrong...)
		d.Blocked.Insert(n.node.Name)
		return
	}
	n.givers.Insert(pod.Spec.SchedulerName)
	for _, a := range peak(requests, record, func(r recorded, k int) string { return strconv.Itoa(r.indexes[k]) }) {
		d.Allocated[n.modelKey()] += a.milli
	}
}

// allocate counts what a record names, wrong or not.
func (n *nodeDevices) allocate(pod *corev1.Pod, requests []request, record map[string]recorded) {
	nameOf := func(r recorded, k int) string { return n.name(r.device(k)) }
	for _, r := range requests {
		given, ok := record[r.container]
		if !ok {
			continue
		}
		n.closed = n.closed || n.uuids == nil && !given.readsIndexes()
		for k := range given.indexes {
			use := n.use(nameOf(given, k))
			use.allocations = append(use.allocations, Allocation{podName(pod), r.container, given.amount.milli, given.amount.mib})
		}
	}
	for name, a := range peak(requests, record, nameOf) {
		use := n.use(name)
		use.amount = use.amount.plus(a)
		use.pods = append(use.pods, podName(pod))
	}
}

// peak sums up what a pod takes of each device, at the worst moment of its life: init
// containers one at a time, then all the others, and a sidecar from its place in the
// list to the end. name names the k-th device of a container.
func peak(requests []request, record map[string]recorded, name func(r recorded, k int) string) map[string]amount {
	most := map[string]amount{}
	var running []request
	moment := func(together []request) {
		sum := map[string]amount{}
		for _, r := range together {
			given := record[r.container]
			for k := range given.indexes {
				sum[name(given, k)] = sum[name(given, k)].plus(given.amount)
			}
		}
		for device, a := range sum {
			most[device] = amount{max(most[device].milli, a.milli), max(most[device].mib, a.mib)}
		}
	}
	for _, r := range requests {
		if r.phase == initContainer {
			moment(append(slices.Clone(running), r))
		} else {
			running = append(running, r)
		}
	}
	moment(running)
	return most
}

// checkRecord compares what a pod was given with what it requests.
func (n *nodeDevices) checkRecord(pod *corev1.Pod, requests []request, record map[string]recorded) Violations {
	var found Violations
	wrong := func(container, format string, args ...any) {
		found.add(WrongRecord, podName(pod), "container %q "+format, append([]any{container}, args...)...)
	}
	left := maps.Clone(record)
	for _, r := range requests {
		given, ok := record[r.container]
		if !ok {
			wrong(r.container, "requests devices, and annotation %s has no entry for it", recordAnnotation)
			continue
		}
		indexes := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(given.indexes)), ","), "[]")
		if sets.New(given.indexes...).Len() != r.devices() || len(given.indexes) != r.devices() {
			wrong(r.container, "requests %d devices, and was given %s", r.devices(), indexes)
		}
		if slices.Max(given.indexes) >= n.shared.devices {
			wrong(r.container, "was given device %s of node %q, which shares %d", indexes, n.node.Name, n.shared.devices)
		}
		if want := r.of(n.shared); given.amount != want {
			wrong(r.container, "requests %v of each device, and was given %v", want, given.amount)
		}
		if reads := strings.Join(given.reads, ","); given.readsIndexes() && reads != indexes || len(given.reads) != len(given.indexes) {
			wrong(r.container, "was given devices %s, and reads %q (annotation %s)", indexes, reads, devicesPrefix+r.container)
		}
		delete(left, r.container)
	}
	for _, container := range slices.Sorted(maps.Keys(left)) {
		wrong(container, "was given devices, and requests none")
	}
	return found
}

// overcommitted returns the devices with more allocated than they have.
func (n *nodeDevices) overcommitted() Violations {
	var found Violations
	for _, name := range slices.Sorted(maps.Keys(n.byName)) {
		use := n.byName[name]
		kind := Overcommitted
		if use.amount.milli <= whole {
			if !n.shares || use.amount.mib <= n.shared.mib {
				continue
			}
			kind = OvercommittedMemory
		}
		slices.Sort(use.pods)
		var to []string
		slices.SortStableFunc(use.allocations, func(a, b Allocation) int { return cmp.Compare(a.Pod, b.Pod) })
		for _, a := range use.allocations {
			to = append(to, fmt.Sprintf("%s %s (%dm %dMi)", a.Pod, a.Container, a.Milli, a.MemoryMiB))
		}
		found = append(found, Violation{
			Kind: kind, Object: n.node.Name + "/" + name, Pods: use.pods,
			Detail: fmt.Sprintf("%dm of %dm and %dMi of %dMi of device %s of node %q are allocated, to %s",
				use.amount.milli, whole, use.amount.mib, n.shared.mib, name, n.node.Name, strings.Join(to, ", ")),
		})
	}
	return found
}

// ClosedTo are the nodes of which a rival gives no new share, because another one has
// given a share there.
func (d *Devices) ClosedTo(rival string) sets.Set[string] {
	closed := sets.New[string]()
	for name, n := range d.nodes {
		if slices.Contains(d.rivals, rival) && slices.ContainsFunc(d.rivals, func(other string) bool { return other != rival && n.givers.Has(other) }) {
			closed.Insert(name)
		}
	}
	return closed
}

// checkPending finds out whether an event says why the pod waits, and whether it waits
// for nothing.
func (d *Devices) checkPending(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	if c := podScheduled(pod); c == nil || c.Status != corev1.ConditionFalse || c.Reason == "" || c.Message == "" {
		d.Violations.add(Silent, podName(pod), "has no node, and no condition says why")
	}
	requests, _ := readRequests(pod)
	closed := d.ClosedTo(pod.Spec.SchedulerName)
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[name]
		free := func(use *deviceUse) amount { return amount{whole - use.amount.milli, n.shared.mib - use.amount.mib} }
		if !d.Blocked.Has(name) && !closed.Has(name) && len(refusals(pod, n.node)) == 0 && n.hasRoom(requests, free) {
			d.Violations.add(Stranded, podName(pod), "has no node, and node %q has room for it", name)
			return
		}
	}
}

// hasRoom reports whether the requests fit beside each other, container by container on
// the first devices that have room. With several containers it may say no where another
// choice would fit, and never yes where none does.
func (n *nodeDevices) hasRoom(requests []request, free func(*deviceUse) amount) bool {
	if !n.shares || n.closed {
		return false
	}
	room := map[int]amount{}
	for i := range n.shared.devices {
		if index := strconv.Itoa(i); !n.shared.cordoned.Has(index) {
			room[i] = free(n.use(n.name(index)))
		}
	}
	for _, r := range requests {
		want, missing := r.of(n.shared), r.devices()
		for _, i := range slices.Sorted(maps.Keys(room)) {
			if missing > 0 && room[i].milli >= want.milli && room[i].mib >= want.mib {
				room[i] = room[i].plus(amount{-want.milli, -want.mib})
				missing--
			}
		}
		if missing > 0 {
			return false
		}
	}
	return true
}

// HasCompute reports whether a node must take one more share of so many thousandths, if
// memory is left aside.
func (d *Devices) HasCompute(node string, milli int64) bool {
	n, ok := d.nodes[node]
	return ok && n.hasRoom([]request{{milli: milli}}, func(use *deviceUse) amount { return amount{whole - use.amount.milli, math.MaxInt64} })
}

// CheckLost compares what a test has created and not deleted, UIDs by namespace/name,
// with what is there.
func CheckLost(created map[string]string, pods []corev1.Pod) Violations {
	there := map[string]string{}
	for i := range pods {
		there[podName(&pods[i])] = string(pods[i].UID)
	}
	var found Violations
	for _, name := range slices.Sorted(maps.Keys(created)) {
		if there[name] != created[name] {
			found.add(Lost, name, "was created with UID %s; there is %q", created[name], there[name])
		}
	}
	return found
}
