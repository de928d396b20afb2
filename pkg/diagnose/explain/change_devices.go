// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/messages"
)

const (
	milli  = corev1.ResourceName(names.GPUMilliResource)
	memory = corev1.ResourceName(names.GPUMemoryResource)
)

// editContainer changes the resources of a container of the pod.
func editContainer(name string, edit func(*corev1.ResourceRequirements)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if containers[i].Name == name {
					edit(&containers[i].Resources)
				}
			}
		}
	}
}

// setLimit sets limit and request of a container, where it has them; a zero amount removes
// both.
func setLimit(container string, name corev1.ResourceName, amount resource.Quantity) func(*corev1.Pod) {
	return renameLimit(container, name, name, amount)
}

// renameLimit gives a container the amount under another name.
func renameLimit(container string, from, to corev1.ResourceName, amount resource.Quantity) func(*corev1.Pod) {
	return editContainer(container, func(resources *corev1.ResourceRequirements) {
		for _, list := range []corev1.ResourceList{resources.Limits, resources.Requests} {
			_, ok := list[from]
			delete(list, from)
			if ok && !amount.IsZero() {
				list[to] = amount
			}
		}
	})
}

// all makes several edits.
func all(edits []func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, edit := range edits {
			edit(pod)
		}
	}
}

func limitChange(kind string, cost float64, container string, name corev1.ResourceName, change func(*corev1.Pod), format string, args ...any) *Change {
	c := podChange(kind, cost, change, "in container %s, %s", container, fmt.Sprintf(format, args...))
	c.fields = []string{container + "/" + string(name)}
	return c
}

// proposeDeviceValues proposes what invalid amounts and names of devices may be meant to be.
func proposeDeviceValues(s *situation, add func(*Change)) {
	if s.request != nil {
		return
	}
	for _, c := range slices.Concat(s.pod.Spec.InitContainers, s.pod.Spec.Containers) {
		set := func(cost float64, name corev1.ResourceName, value resource.Quantity) {
			add(limitChange("amount", cost, c.Name, name, setLimit(c.Name, name, value), "set the limit %s to %s", name, plain(name, value)))
		}
		if q, ok := c.Resources.Limits[milli]; ok {
			for i, n := range meantMilli(&q) {
				set(1+0.1*float64(i), milli, *resource.NewQuantity(n, resource.DecimalSI))
			}
		}
		if q, ok := c.Resources.Limits[memory]; ok && q.Value() > 0 && q.Value() < 1<<20 {
			set(1, memory, *resource.NewQuantity(q.Value()<<30, resource.BinarySI))
			set(1.1, memory, *resource.NewQuantity(q.Value()<<20, resource.BinarySI))
		}
		for name, q := range c.Resources.Limits {
			if meant := messages.Nearest(string(name), []string{string(milli), string(memory)}); meant != "" && meant != string(name) {
				rename := renameLimit(c.Name, name, corev1.ResourceName(meant), q)
				add(limitChange("resourceName", 0.8, c.Name, name, rename, "write the limit %s instead of %s", meant, name))
			}
		}
		for _, plugin := range s.keys.PluginResources {
			if _, both := c.Resources.Limits[plugin]; both {
				remove := setLimit(c.Name, plugin, resource.Quantity{})
				add(limitChange("amount", 2, c.Name, plugin, remove, "remove the limit %s: the share already asks for the same devices", plugin))
			}
		}
	}
	for _, key := range []string{names.GPUModelAnnotation, names.GPUMinMemoryAnnotation} {
		if _, ok := s.pod.Annotations[key]; ok {
			add(removeAnnotations(3, key))
		}
	}
}

// plain writes an amount as people do: thousandths of devices without a suffix.
func plain(name corev1.ResourceName, amount resource.Quantity) string {
	if name == milli {
		return strconv.FormatInt(amount.Value(), 10)
	}
	return amount.String()
}

// meantMilli returns the shares or whole devices that an amount may stand for.
func meantMilli(q *resource.Quantity) []int64 {
	const most = device.MaxDevices * device.MilliPerDevice
	n := q.Value()
	switch {
	case q.Sign() <= 0:
		return nil
	case q.MilliValue()%1000 != 0 && q.MilliValue() < device.MilliPerDevice:
		return []int64{q.MilliValue()} // half a device, as 0.5
	case n > device.MilliPerDevice && n%device.MilliPerDevice != 0:
		down := min(n, most) / device.MilliPerDevice * device.MilliPerDevice
		return []int64{min(down+device.MilliPerDevice, most), down}
	case n > most:
		return []int64{most}
	}
	return nil
}

// proposeDeviceModel proposes models and memory that nodes have.
func proposeDeviceModel(s *situation, add func(*Change)) {
	if s.request == nil || !s.request.Constrained() {
		return
	}
	models := map[string]int64{}
	for i := range s.nodes {
		if node := device.ParseNode(s.nodes[i].node(), s.keys); node.Kind != device.NodeWithoutDevices && node.Model != "" {
			models[node.Model] = max(models[node.Model], node.MemoryMiB)
		}
	}
	least := int64(0)
	var near, further []*Change
	for _, model := range slices.Sorted(maps.Keys(models)) {
		if s.request.MinMemoryMiB > models[model] {
			least = max(least, models[model])
		}
		if s.request.Models.Match(model) {
			continue
		}
		list := s.pod.Annotations[names.GPUModelAnnotation]
		if wider := s.request.Models.Widened(model); wider != "" {
			near = append(near, setAnnotation(s, 0.9, names.GPUModelAnnotation, wider, fmt.Sprintf(": it matches %q", model)))
		} else if messages.Distance(strings.ToLower(list), model, messages.Typo) <= messages.Typo {
			near = append(near, setAnnotation(s, 0.9, names.GPUModelAnnotation, model, ", which exists"))
		} else {
			further = append(further, setAnnotation(s, 4, names.GPUModelAnnotation, list+","+model, ", if that model will do"))
		}
	}
	if len(near) == 0 {
		near = further
	}
	for _, change := range near {
		add(change)
	}
	if least > 0 {
		add(setAnnotation(s, 3, names.GPUMinMemoryAnnotation, device.FormatMiB(least), ", the most that any node has"))
	}
}

// proposeSmallerShare proposes what is free on the devices that come nearest.
func proposeSmallerShare(s *situation, add func(*Change)) {
	if s.request == nil || s.request.Kind != device.RequestShares {
		return
	}
	seen := map[string]bool{}
	for i := range s.nodes {
		d := s.devicesOf(s.nodes[i].info)
		if d.Node.Kind != device.NodeShared || len(d.Unknown) > 0 || !s.request.Models.Match(d.Node.Model) {
			continue
		}
		container, share := largest(s.request, d.Node.MemoryMiB)
		change := smallerShare(d, container, share)
		if change != nil && len(seen) < 8 {
			seen[change.Text] = true
			add(change)
		}
	}
}

// smallerShare proposes what is free on the node for a container, or nil.
func smallerShare(d *deviceusage.NodeUsage, container *device.ContainerRequest, share device.Share) *Change {
	if container.Devices > 1 {
		whole := int64(d.Usage.Fitting(device.Share{Milli: device.MilliPerDevice, MemoryMiB: share.MemoryMiB}).Len())
		if whole == 0 || whole >= int64(container.Devices) {
			return nil
		}
		amount := *resource.NewQuantity(whole*device.MilliPerDevice, resource.DecimalSI)
		return podChange("smallerShare", 2.2+3*(1-float64(whole)/float64(container.Devices)), setLimit(container.Container, milli, amount),
			"in container %s, ask for %s of %s instead of %d", container.Container, plain(milli, amount), milli, container.Devices*device.MilliPerDevice)
	}
	i, _ := d.Usage.Nearest(share)
	if i < 0 {
		return nil
	}
	free := d.Usage.Free(i)
	const least = 10 // less than a tenth would be another workload
	if free.Milli*least < share.Milli || free.MemoryMiB*least < share.MemoryMiB {
		return nil
	}
	var texts []string
	var edits []func(*corev1.Pod)
	fraction := 1.0
	limit := func(name corev1.ResourceName, asked, there int64, amount resource.Quantity, before string) {
		if asked > 0 && there < asked {
			texts = append(texts, fmt.Sprintf("%s of %s instead of %s", plain(name, amount), name, before))
			edits = append(edits, setLimit(container.Container, name, amount))
			fraction = min(fraction, float64(there)/float64(asked))
		}
	}
	free.Milli, free.MemoryMiB = min(free.Milli, device.MilliPerDevice), min(free.MemoryMiB, d.Node.MemoryMiB)
	// What is derived of the other must fit too.
	freeMilli, freeMemory := free.Milli, free.MemoryMiB
	if container.MemoryMiB == 0 {
		freeMilli = min(freeMilli, free.MemoryMiB*device.MilliPerDevice/max(1, d.Node.MemoryMiB))
	}
	if container.Milli == 0 {
		freeMemory = min(freeMemory, free.Milli*d.Node.MemoryMiB/device.MilliPerDevice)
	}
	limit(milli, container.Milli, freeMilli, *resource.NewQuantity(freeMilli, resource.DecimalSI), strconv.FormatInt(container.Milli, 10))
	limit(memory, container.MemoryMiB, freeMemory, *resource.NewQuantity(freeMemory<<20, resource.BinarySI), device.FormatMiB(container.MemoryMiB))
	if len(edits) == 0 {
		return nil
	}
	return podChange("smallerShare", 2.2+3*(1-fraction), all(edits), "in container %s, ask for %s", container.Container, strings.Join(texts, " and "))
}
