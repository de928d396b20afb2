// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Record is what one container was given, as the annotation gpu-assigned says it.
type Record struct {
	// Container is the container's name.
	Container string
	// Devices are its devices; at least one.
	Devices Set
	// Share is what it was given of each.
	Share Share
}

// maxRecordLength is longer than any record that FormatRecords writes: MaxContainers
// containers with names of 63 characters and MaxDevices devices.
const maxRecordLength = 4096

// FormatRecords writes the annotation gpu-assigned:
//
//	trainer=0,1:1000m:81920Mi;loader=2:250m:20480Mi
//
// that is, for each container in the order of the spec, its devices in ascending
// order and what it was given of each of them.
func FormatRecords(records []Record) string {
	var b strings.Builder
	for i, r := range records {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, "%s=%s:%dm:%dMi", r.Container, formatIndexes(r.Devices), r.Share.Milli, r.Share.MemoryMiB)
	}
	return b.String()
}

// ParseRecords is the inverse of FormatRecords. It accepts exactly what that
// writes for records with valid amounts: what it returns formats to the same
// text, so there is one way to write a fact and no room for interpretation.
func ParseRecords(text string) ([]Record, error) {
	if text == "" {
		return nil, errors.New("is empty")
	}
	if len(text) > maxRecordLength {
		return nil, fmt.Errorf("has %d characters, more than any that Berth writes", len(text))
	}
	var records []Record
	for part := range strings.SplitSeq(text, ";") {
		r, err := parseRecord(part)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(records), err)
		}
		if len(records) == MaxContainers {
			return nil, fmt.Errorf("has more than %d entries", MaxContainers)
		}
		if slices.ContainsFunc(records, func(other Record) bool { return other.Container == r.Container }) {
			return nil, fmt.Errorf("entry %d: container %q occurs twice", len(records), r.Container)
		}
		records = append(records, r)
	}
	return records, nil
}

// parseRecord parses the entry of one container.
func parseRecord(text string) (Record, error) {
	container, rest, ok := strings.Cut(text, "=")
	if !ok || !validContainerName(container) {
		return Record{}, fmt.Errorf("%q does not begin with the name of a container and =", shorten(text))
	}
	fields := strings.Split(rest, ":")
	if len(fields) != 3 {
		return Record{}, fmt.Errorf("%q has %d fields after =, not devices, compute and memory", shorten(text), len(fields))
	}
	devices, err := parseIndexes(fields[0])
	if err != nil {
		return Record{}, err
	}
	milli, ok := parseAmount(fields[1], "m", MilliPerDevice)
	if !ok {
		return Record{}, fmt.Errorf("compute %q is not 1m to %dm", shorten(fields[1]), MilliPerDevice)
	}
	memory, ok := parseAmount(fields[2], "Mi", MaxMemoryMiB)
	if !ok {
		return Record{}, fmt.Errorf("memory %q is not 1Mi to %dMi", shorten(fields[2]), MaxMemoryMiB)
	}
	if devices.Len() > 1 && milli != MilliPerDevice {
		return Record{}, fmt.Errorf("%d devices with %dm each: if there is more than one device, they must be whole", devices.Len(), milli)
	}
	return Record{Container: container, Devices: devices, Share: Share{Milli: milli, MemoryMiB: memory}}, nil
}

// parseAmount parses a positive number with a unit.
func parseAmount(text, unit string, limit int64) (int64, bool) {
	digits, ok := strings.CutSuffix(text, unit)
	if !ok {
		return 0, false
	}
	n, ok := parseCount(digits, limit)
	return n, ok && n > 0
}

// validContainerName reports whether s is a DNS label, as container names are.
func validContainerName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// formatIndexes writes a set as "0,1,5".
func formatIndexes(s Set) string {
	var b []byte
	for i := range s.All() {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(i), 10)
	}
	return string(b)
}

// parseIndexes is the inverse of formatIndexes for sets that are not empty.
func parseIndexes(text string) (Set, error) {
	var s Set
	last := int64(-1)
	for part := range strings.SplitSeq(text, ",") {
		i, ok := parseCount(part, MaxDevices-1)
		if !ok {
			return 0, fmt.Errorf("device %q is not an index from 0 to %d", shorten(part), MaxDevices-1)
		}
		if i <= last {
			return 0, fmt.Errorf("devices %q are not in ascending order", shorten(text))
		}
		s, last = s.With(int(i)), i
	}
	return s, nil
}

// ErrUnrecorded is a pod that asks for shares and has no record of what it was
// given: it was bound by something else, and may use any device of its node.
var ErrUnrecorded = errors.New("asks for device shares and was bound without any")

// Annotations returns what a Binding writes to the pod: the record of what each
// container was given, and for each container the devices that it reads, as
// indexes or as the UUIDs of the node.
func (a *Assignment) Annotations(r *Request, n *Node) map[string]string {
	annotations := make(map[string]string, len(r.Containers)+1)
	records := make([]Record, 0, len(r.Containers))
	for i := range r.Containers {
		name := r.Containers[i].Container
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
// what it asks for, from ParsePod, and must be of RequestShares.
//
// Nothing is believed that does not agree with the rest of the pod: every
// container that asks must be recorded and no other, with the number of devices
// and the amounts that it asks for, and the devices that the container reads must
// be those of the record. (Amounts that were derived cannot be checked: the node
// may have changed.) Without a record the error is ErrUnrecorded; any other
// names the annotation and the contradiction.
func ParseAssignment(annotations map[string]string, r *Request) (Assignment, error) {
	var a Assignment
	text, ok := annotations[names.GPUAssignedAnnotation]
	if !ok {
		return a, ErrUnrecorded
	}
	records, err := ParseRecords(text)
	if err != nil {
		return a, fmt.Errorf("annotation %s %w", names.GPUAssignedAnnotation, err)
	}
	if len(records) != len(r.Containers) {
		return a, fmt.Errorf("annotation %s has %d entries, and %d containers ask for devices", names.GPUAssignedAnnotation, len(records), len(r.Containers))
	}
	for i := range records {
		if err := agrees(&records[i], &r.Containers[i]); err != nil {
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
func agrees(record *Record, container *ContainerRequest) error {
	switch {
	case record.Container != container.Container:
		return fmt.Errorf("container %q stands where %q asks", record.Container, container.Container)
	case record.Devices.Len() != container.Devices:
		return fmt.Errorf("container %q has %d devices and asks for %d", container.Container, record.Devices.Len(), container.Devices)
	case container.Milli != 0 && record.Share.Milli != container.Milli:
		return fmt.Errorf("container %q has %dm and asks for %dm", container.Container, record.Share.Milli, container.Milli)
	case container.MemoryMiB != 0 && record.Share.MemoryMiB != container.MemoryMiB:
		return fmt.Errorf("container %q has %dMi and asks for %dMi", container.Container, record.Share.MemoryMiB, container.MemoryMiB)
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
