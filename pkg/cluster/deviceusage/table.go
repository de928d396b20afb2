// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/output"
)

// By says what a table has a row for.
type By string

// What a table has a row for.
const (
	ByDevice        By = "device"
	ByNode          By = "node"
	ByPod           By = "pod"
	ByNamespace     By = "namespace"
	ByModel         By = "model"
	ByResourceClaim By = "claim"
)

// Grouping returns every value of [By], the default first, each call a fresh slice.
func Grouping() []By { return []By{ByDevice, ByNode, ByPod, ByNamespace, ByModel, ByResourceClaim} }

// Table is rows of cells below a header. The first cells of a row, as many as Key, tell
// it from all others.
type Table struct {
	Header []string
	Key    int
	Rows   [][]string
}

// Table returns the report as rows for people; wide ones have more columns.
func (r *Report) Table(by By, wide bool) *Table {
	switch by {
	case ByNode:
		return r.nodeTable(wide)
	case ByPod:
		return r.podTable(wide)
	case ByNamespace:
		return r.namespaceTable()
	case ByModel:
		return r.modelTable(wide)
	case ByResourceClaim:
		return r.claimTable()
	case ByDevice:
	}
	return r.deviceTable(wide)
}

// Write writes the table in columns, with the header if asked for.
func (t *Table) Write(w io.Writer, header bool) error {
	table := output.Table{Rows: t.Rows}
	if header {
		table.Header = t.Header
	}
	return table.Write(w)
}

// Changed returns the rows that before does not have, and one for each that is gone.
func (t *Table) Changed(before *Table) *Table {
	changed := &Table{Header: t.Header, Key: t.Key}
	old := map[string]string{}
	for _, row := range before.Rows {
		old[joined(row[:t.Key])] = joined(row)
	}
	for _, row := range t.Rows {
		key := joined(row[:t.Key])
		if old[key] != joined(row) {
			changed.Rows = append(changed.Rows, row)
		}
		delete(old, key)
	}
	for _, row := range before.Rows {
		if _, gone := old[joined(row[:t.Key])]; gone {
			cells := make([]string, len(row))
			copy(cells, row[:t.Key])
			cells[len(cells)-1] = "gone"
			changed.Rows = append(changed.Rows, cells)
		}
	}
	return changed
}

func joined(cells []string) string { return strings.Join(cells, "\x00") }

// pick appends the wide cells where they are asked for, before the last cell.
func pick(wide bool, cells []string, more ...string) []string {
	if !wide {
		return cells
	}
	last := len(cells) - 1
	return append(append(cells[:last:last], more...), cells[last])
}

func (r *Report) deviceTable(wide bool) *Table {
	t := &Table{Key: 3, Header: pick(wide, []string{"NODE", "MODEL", "DEVICE", "FREE", "ALLOCATED TO", "STATUS"}, "MEMORY", "UUID")}
	whole := map[string][]string{}
	for i := range r.Pods {
		if pod := &r.Pods[i]; pod.WholeDevices > 0 {
			whole[pod.Node] = append(whole[pod.Node], pod.key()+" ("+output.Count(int(pod.WholeDevices), "device")+")")
		}
	}
	nominated := r.nominated()
	for i := range r.Nodes {
		node := &r.Nodes[i]
		for j := range node.Devices {
			d := &node.Devices[j]
			t.Rows = append(t.Rows, pick(wide, []string{
				node.Name, node.Model, strconv.Itoa(d.Index), r.free(node, d), heldBy(d.HeldBy), node.status(d, nominated[node.Name]),
			}, memory(node.DeviceMemoryMiB), d.UUID))
		}
		r.claimRows(t, node, wide)
		if node.Kind != Shared {
			t.Rows = append(t.Rows, pick(wide, []string{node.Name, node.Model, "", node.HandedOut.free(r.atMost()), output.List(whole[node.Name], maxHolders), node.status(nil, nominated[node.Name])}, memory(node.DeviceMemoryMiB), ""))
		}
	}
	return t
}

func (r *Report) nodeTable(wide bool) *Table {
	t := &Table{Key: 1, Header: pick(wide, []string{"NODE", "KIND", "MODEL", "DEVICES", "FREE", "WHOLE", "CORDONED", "CONFLICTS", "PODS", "STATUS"}, "MEMORY", "MEMORY IS", "COMPUTE IS")}
	pods, nominated := map[string]int{}, r.nominated()
	for i := range r.Pods {
		pods[r.Pods[i].Node]++
	}
	for i := range r.Nodes {
		node := &r.Nodes[i]
		devices, cordoned, conflicts, whole := len(node.Devices), 0, 0, 0
		if node.Kind == Driver {
			for j := range node.Isolation {
				devices += node.Isolation[j].Devices
			}
		}
		var free int64
		for j := range node.Devices {
			d := &node.Devices[j]
			switch {
			case d.Cordoned:
				cordoned++
			default:
				free += max(0, d.Free.Milli)
			}
			if d.Conflict != "" {
				conflicts++
			}
			if !d.Cordoned && len(d.HeldBy) == 0 {
				whole++
			}
		}
		cells := []string{node.Name, string(node.Kind), node.Model, strconv.Itoa(devices), r.atMost() + milli(free), strconv.Itoa(whole)}
		if h := node.HandedOut; h != nil {
			cells = []string{node.Name, string(node.Kind), node.Model, strconv.FormatInt(h.Devices, 10), h.free(r.atMost()), strconv.FormatInt(h.Devices-h.Held, 10)}
		}
		if node.Kind == Unknown || node.Kind == Invalid || node.Kind == Driver {
			cells[4], cells[5] = "", ""
		}
		cells = append(cells, strconv.Itoa(cordoned), strconv.Itoa(conflicts), strconv.Itoa(pods[node.Name]), node.status(nil, nominated[node.Name]))
		t.Rows = append(t.Rows, pick(wide, cells, memory(node.DeviceMemoryMiB),
			node.isolation(func(i *Isolation) string { return i.Memory }), node.isolation(func(i *Isolation) string { return i.Compute })))
	}
	return t
}

func (r *Report) podTable(wide bool) *Table {
	t := &Table{Key: 2, Header: pick(wide, []string{"NAMESPACE", "POD", "NODE", "DEVICES", "HELD", "STATUS"}, "MODEL", "BY", "SCHEDULER")}
	for i := range r.Pods {
		pod := &r.Pods[i]
		var indexes []string
		for _, index := range pod.Devices {
			indexes = append(indexes, strconv.Itoa(index))
		}
		held := share(pod.Held)
		switch {
		case pod.WholeDevices > 0:
			held = output.Count(int(pod.WholeDevices), "device")
		case len(pod.Claimed) > 0 && len(pod.Devices) == 0:
			held = output.List(cluster.DeviceNames(pod.Claimed), maxHolders)
		case len(pod.Devices) == 0:
			held = ""
		}
		t.Rows = append(t.Rows, pick(wide, []string{pod.Namespace, pod.Name, pod.Node, strings.Join(indexes, ","), held, pod.Problem},
			pod.Model, string(pod.How), pod.SchedulerName))
	}
	for i := range r.Waiting {
		w := &r.Waiting[i]
		t.Rows = append(t.Rows, pick(wide, []string{w.Namespace, w.Name, "", "", "", w.status()}, "", string(w.How), w.SchedulerName))
	}
	return t
}

func (r *Report) namespaceTable() *Table {
	t := &Table{Key: 1, Header: []string{"NAMESPACE", "PODS", "HELD", "WHOLE DEVICES", "PROBLEMS"}}
	for _, n := range r.Namespaces {
		t.Rows = append(t.Rows, []string{n.Name, strconv.Itoa(n.Pods), share(n.Held), strconv.FormatInt(n.WholeDevices, 10), strconv.Itoa(n.Problems)})
	}
	return t
}

func (r *Report) modelTable(wide bool) *Table {
	t := &Table{Key: 1, Header: pick(wide, []string{"MODEL", "NODES", "DEVICES", "CORDONED", "ALLOCATED", "FREE", "WHOLE", "FRAGMENTED", "CONFLICTS", "DEVICE PLUGIN"}, "BLOCKED", "ALLOCATED OF CORDONED")}
	for i := range r.Models {
		m := &r.Models[i]
		fragmented, plugin := "", ""
		if m.FragmentedMilli != nil {
			fragmented = ratio(*m.FragmentedMilli, m.FreeMilli)
		}
		if h := m.HandedOut; h != nil {
			plugin = fmt.Sprintf("%d of %d held", h.Held, h.Devices)
		}
		t.Rows = append(t.Rows, pick(wide, []string{
			m.Name, strconv.Itoa(m.Nodes), strconv.Itoa(m.Devices), strconv.Itoa(m.CordonedDevices),
			ratio(float64(m.AllocatedMilli), m.CapacityMilli), r.atMost() + milli(m.FreeMilli), strconv.Itoa(m.FreeDevices), fragmented, strconv.Itoa(m.Conflicts), plugin,
		}, milli(m.BlockedMilli), milli(m.CordonedAllocatedMilli)))
	}
	return t
}

// atMost stands before what is free where not all that is held could be seen.
func (r *Report) atMost() string {
	if r.OnlyNamespace != "" {
		return "<="
	}
	return ""
}

// free writes what is left of a device.
func (r *Report) free(n *Node, d *Device) string {
	if n.Kind != Shared || d.Conflict == NotThere {
		return ""
	}
	return r.atMost() + share(d.Free)
}

// free writes how many devices a plugin has left.
func (h *HandedOut) free(atMost string) string {
	if h == nil {
		return ""
	}
	return fmt.Sprintf("%s%d of %d", atMost, h.Devices-h.Held, h.Devices)
}

// status writes what is to be said of a device or, without one, of a node. nominated are
// the pods for which room is made there.
func (n *Node) status(d *Device, nominated []string) string {
	var parts []string
	if d != nil {
		if d.Cordoned {
			parts = append(parts, "cordoned")
		}
		if d.Conflict != "" {
			parts = append(parts, conflictText[d.Conflict])
		}
	}
	if n.Unschedulable {
		parts = append(parts, "node cordoned")
	}
	switch {
	case len(n.UnknownUse) > 0 && n.Kind == Shared:
		parts = append(parts, "takes no share: "+output.Count(len(n.UnknownUse), "pod")+" without a record, "+n.UnknownUse[0].Pod)
	case d == nil && n.Kind == Driver:
		parts = append(parts, n.publishedBy()...)
	case n.Kind == DevicePlugin:
		parts = append(parts, "handed out by a device plugin")
	case n.Kind == Invalid:
		parts = append(parts, "rejected: "+n.Problem)
	case n.Kind == NotShared:
		parts = append(parts, "not shared, and shares are allocated")
	case n.Kind == Unknown:
		parts = append(parts, "node not seen")
	}
	if len(nominated) > 0 {
		parts = append(parts, "room is being made for "+output.List(nominated, maxHolders))
	}
	return strings.Join(parts, ", ")
}

var conflictText = map[Conflict]string{
	GivenTwice:   "allocated twice",
	MemoryShrank: "more memory allocated than it has",
	NotThere:     "no longer on the node",
}

// maxHolders bounds the cell of a device that many pods hold.
const maxHolders = 8

func heldBy(holdings []Holding) string {
	parts := make([]string, 0, len(holdings))
	for _, h := range holdings {
		parts = append(parts, h.Pod+" ("+share(h.Share)+")")
	}
	return output.List(parts, maxHolders)
}

func share(s Share) string { return milli(s.Milli) + " " + memory(s.MemoryMiB) }

func milli(amount int64) string { return strconv.FormatInt(amount, 10) + "m" }

func memory(mib int64) string {
	if mib == 0 {
		return "0"
	}
	return strconv.FormatInt(mib, 10) + "Mi"
}

// ratio writes an amount in devices, and in percent of all.
func ratio(amount float64, all int64) string {
	if all <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f (%.0f %%)", amount/device.MilliPerDevice, 100*amount/float64(all))
}
