// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// ErrNotAssigned is a pod that asks for shares and has no record of what it was
// given: it was bound by something else, and may use any device of its node.
var ErrNotAssigned = errors.New("asks for device shares and was bound without any")

// Annotations returns what a Binding writes to the pod: the record of what each
// container was given, and for each container the devices that it reads, as
// indexes or as the UUIDs of the node.
func (a *Assignment) Annotations(r *Request, n *Node) map[string]string {
	annotations := make(map[string]string, len(r.Asks)+1)
	records := make([]Record, 0, len(r.Asks))
	for i := range r.Asks {
		name := r.Asks[i].Container
		records = append(records, Record{Container: name, Devices: a.Devices[i], Share: a.Shares[i]})
		annotations[names.GPUDevicesAnnotationPrefix+name] = visibleDevices(a.Devices[i], n.UUIDs)
	}
	annotations[names.GPUAssignedAnnotation] = FormatRecords(records)
	return annotations
}

// visibleDevices writes the devices as a container runtime reads them.
func visibleDevices(devices Set, uuids []string) string {
	if uuids == nil {
		return formatIndexes(devices)
	}
	var b strings.Builder
	for i := range devices.All() {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(uuids[i])
	}
	return b.String()
}

// ParseAssignment returns what a bound pod was given, from its annotations. r is
// what it asks for, from ParsePod, and must be of FormShares.
//
// Nothing is believed that does not agree with the rest of the pod: every
// container that asks must be recorded and no other, with the number of devices
// and the amounts that it asks for, and the devices that the container reads must
// be those of the record. (Amounts that were derived cannot be checked: the node
// may have changed.) Without a record the error is ErrNotAssigned; any other
// names the annotation and the contradiction.
func ParseAssignment(annotations map[string]string, r *Request) (Assignment, error) {
	var a Assignment
	text, ok := annotations[names.GPUAssignedAnnotation]
	if !ok {
		return a, ErrNotAssigned
	}
	records, err := ParseRecords(text)
	if err != nil {
		return a, fmt.Errorf("annotation %s %w", names.GPUAssignedAnnotation, err)
	}
	if len(records) != len(r.Asks) {
		return a, fmt.Errorf("annotation %s has %d entries, and %d containers ask for devices", names.GPUAssignedAnnotation, len(records), len(r.Asks))
	}
	for i := range records {
		if err := agrees(&records[i], &r.Asks[i]); err != nil {
			return Assignment{}, fmt.Errorf("annotation %s: %w", names.GPUAssignedAnnotation, err)
		}
		key := names.GPUDevicesAnnotationPrefix + records[i].Container
		if err := readsDevices(annotations, key, records[i].Devices); err != nil {
			return Assignment{}, fmt.Errorf("annotation %s %w", key, err)
		}
		a.Devices[i], a.Shares[i] = records[i].Devices, records[i].Share
	}
	return a, nil
}

// agrees checks a record against what the container asks for.
func agrees(record *Record, ask *Ask) error {
	switch {
	case record.Container != ask.Container:
		return fmt.Errorf("container %q stands where %q asks", record.Container, ask.Container)
	case record.Devices.Len() != ask.Devices:
		return fmt.Errorf("container %q has %d devices and asks for %d", ask.Container, record.Devices.Len(), ask.Devices)
	case ask.Milli != 0 && record.Share.Milli != ask.Milli:
		return fmt.Errorf("container %q has %dm and asks for %dm", ask.Container, record.Share.Milli, ask.Milli)
	case ask.MemoryMiB != 0 && record.Share.MemoryMiB != ask.MemoryMiB:
		return fmt.Errorf("container %q has %dMi and asks for %dMi", ask.Container, record.Share.MemoryMiB, ask.MemoryMiB)
	}
	return nil
}

// readsDevices checks what the container reads against the record. UUIDs can only
// be counted: which device has which is the node's to know.
func readsDevices(annotations map[string]string, key string, devices Set) error {
	value, ok := annotations[key]
	if !ok {
		return errors.New("is missing")
	}
	if value == formatIndexes(devices) {
		return nil
	}
	parts := strings.Split(value, ",")
	if len(parts) != devices.Len() {
		return fmt.Errorf("%q names %d devices, and the record %d", shorten(value), len(parts), devices.Len())
	}
	for i, part := range parts {
		if !validUUID(part) {
			return fmt.Errorf("%q is neither the recorded devices %q nor UUIDs", shorten(value), formatIndexes(devices))
		}
		if slices.Contains(parts[:i], part) {
			return fmt.Errorf("%q names a device twice", shorten(value))
		}
	}
	return nil
}
