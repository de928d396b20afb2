// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// maxRecordLength is longer than any record that FormatRecords writes: MaxAsks
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
		if len(records) == MaxAsks {
			return nil, fmt.Errorf("has more than %d entries", MaxAsks)
		}
		if slices.ContainsFunc(records, func(other Record) bool { return other.Container == r.Container }) {
			return nil, fmt.Errorf("entry %d: container %q stands twice", len(records), r.Container)
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
		return Record{}, fmt.Errorf("%d devices with %dm each: more than one device means whole ones", devices.Len(), milli)
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
