// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// whyNeverFits rejects a pod if no node of the cluster can ever take its request.
// As a rule the first node that is asked could: the one that could last time. All
// are asked only for a pod that no Filter would let through either. The answer is about the
// nodes that the pod's owner may know of.
func (pl *GPUDevice) whyNeverFits(request *device.Request, nodes []fwk.NodeInfo, sees plugin.VisibleNodes) *fwk.Status {
	if request.Kind == device.RequestNone {
		return nil
	}
	if pl.nextStartNodeIndex >= len(nodes) {
		pl.nextStartNodeIndex = 0
	}
	var rejected [device.Reasons]int
	for i := range nodes {
		at := (pl.nextStartNodeIndex + i) % len(nodes)
		if !sees(nodes[at].Node()) {
			continue
		}
		reason := pl.view(nodes[at], false).node.Admits(request)
		if reason == device.Fits {
			pl.nextStartNodeIndex = at
			return nil
		}
		rejected[reason]++
	}
	d := deadEnd{request: request, pool: *pl.nodeKeys.Pool, rejected: rejected}
	for _, nodeInfo := range nodes {
		if sees(nodeInfo.Node()) {
			d.nodes = append(d.nodes, pl.view(nodeInfo, false).node)
		}
	}
	text := d.String()
	if text == "" {
		return nil
	}
	return pl.reject(rejectionNoNode, text)
}

// deadEnd is a request that no node can take, the nodes, and how many reject it for which
// reason.
type deadEnd struct {
	request  *device.Request
	pool     string
	nodes    []*device.Node
	rejected [device.Reasons]int
}

// String says why, and what there is instead; "" where another plugin does.
func (d *deadEnd) String() string {
	shares := d.request.Kind == device.RequestShares
	switch {
	case d.rejected[device.LargerThanDevice] > 0:
		return fmt.Sprintf("no node's devices are large enough: the largest %s that a container can be given here is %s",
			names.GPUMemoryResource, device.FormatMiB(d.largestMemory()))
	case d.rejected[device.TooFewDevices] > 0:
		return fmt.Sprintf("no node has as many devices as a container asks for (limit %s, %d for each)", names.GPUMilliResource, device.MilliPerDevice)
	case d.rejected[device.TooLittleMemory] > 0:
		return fmt.Sprintf("no node's devices have the memory of annotation %s: they have up to %s",
			names.GPUMinMemoryAnnotation, device.FormatMiB(d.largestMemory()))
	case d.rejected[device.WrongModel] > 0:
		return fmt.Sprintf("no node has a GPU model that matches annotation %s: there are %s", names.GPUModelAnnotation, d.models())
	case d.rejected[device.InvalidNode] > 0 && shares:
		return fmt.Sprintf("no node can share its devices: %d node(s) with label %s have contradictory labels, the metric berth_gpudevice_refused_nodes says how",
			d.rejected[device.InvalidNode], names.GPUSharingLabel)
	case shares && d.pool != "":
		return fmt.Sprintf("no node of GPU pool %[1]s shares its devices: a limit %[2]s or %[3]s needs a node with the labels %[4]s=true and %[5]s=%[1]s",
			d.pool, names.GPUMilliResource, names.GPUMemoryResource, names.GPUSharingLabel, names.GPUPoolLabel)
	case shares:
		return fmt.Sprintf("no node shares its devices: a limit %s or %s needs a node with label %s=true",
			names.GPUMilliResource, names.GPUMemoryResource, names.GPUSharingLabel)
	default:
		// Device-plugin pods: which resource is missing is for NodeResourcesFit.
		return ""
	}
}

// ofKind yields the nodes that take requests of this form.
func (d *deadEnd) ofKind() iter.Seq[*device.Node] {
	kind := device.NodeShared
	if d.request.Kind != device.RequestShares {
		kind = device.NodeDevicePlugin
	}
	return func(yield func(*device.Node) bool) {
		for _, node := range d.nodes {
			if node.Kind == kind && !yield(node) {
				return
			}
		}
	}
}

func (d *deadEnd) largestMemory() int64 {
	var largest int64
	for node := range d.ofKind() {
		if d.request.Models.Match(node.Model) {
			largest = max(largest, node.MemoryMiB)
		}
	}
	return largest
}

// maxListedModels bounds the text of an event.
const maxListedModels = 8

// models lists the models that there are, and a pattern for one of them that the pod nearly
// asks for: with a * more it would match.
func (d *deadEnd) models() string {
	found := map[string]struct{}{}
	for node := range d.ofKind() {
		found[node.Model] = struct{}{}
	}
	if len(found) == 0 {
		return "none"
	}
	models := slices.Sorted(maps.Keys(found))
	hint := ""
	for _, model := range models {
		if wider := d.request.Models.Widened(model); wider != "" {
			hint = fmt.Sprintf("; the pattern %q would match %q", wider, model)
			break
		}
	}
	if len(models) > maxListedModels {
		models, hint = models[:maxListedModels], " and others"+hint
	}
	for i := range models {
		models[i] = fmt.Sprintf("%q", models[i])
	}
	return strings.Join(models, ", ") + hint
}
