// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// record is what one container was given, of each of its devices.
type record struct {
	container        string
	devices          []int
	milli, memoryMiB int64
}

// recordEntry is one container's part of the annotation.
var recordEntry = regexp.MustCompile(`^([a-z0-9-]+)=([0-9]+(?:,[0-9]+)*):([0-9]+)m:([0-9]+)Mi$`)

// parseRecords reads the annotation in which a bound pod says what it was given.
func parseRecords(text string) ([]record, error) {
	var records []record
	for entry := range strings.SplitSeq(text, ";") {
		parts := recordEntry.FindStringSubmatch(entry)
		if parts == nil {
			return nil, fmt.Errorf("%q is not container=devices:thousandths:memory", entry)
		}
		r := record{container: parts[1]}
		numbers := append([]string{parts[3], parts[4]}, strings.Split(parts[2], ",")...)
		for i, text := range numbers {
			n, ok := parseNumber(text)
			if !ok {
				return nil, fmt.Errorf("%q holds a number that no device has", entry)
			}
			switch i {
			case 0:
				r.milli = n
			case 1:
				r.memoryMiB = n
			default:
				r.devices = append(r.devices, int(n))
			}
		}
		records = append(records, r)
	}
	return records, nil
}

// parseNumber parses a number of devices, or of what they have, which 31 bits can
// hold.
func parseNumber(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int64(n), err == nil
}

// indexes writes devices as a container reads them.
func (r *record) indexes() string {
	var parts []string
	for _, i := range r.devices {
		parts = append(parts, strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}
