// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holder says which process runs a benchmark, so that another one on the same
// machine can see that it has ended.
type holder struct {
	host string
	pid  int
	// place is the boot of the machine and the process namespace in which pid counts;
	// empty where the system does not tell.
	place string
}

// thisHolder describes this process.
func thisHolder() holder {
	h := holder{host: "unknown", pid: os.Getpid()}
	if host, err := os.Hostname(); err == nil {
		h.host = host
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return h
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		h.place = strings.TrimSpace(string(boot)) + "/" + namespace
	}
	return h
}

// String is what the Lease holds: host, process and place, separated by blanks.
func (h holder) String() string {
	return strings.TrimSpace(h.host + " " + strconv.Itoa(h.pid) + " " + h.place)
}

// parseHolder reads what String returns. What it cannot read is not set.
func parseHolder(text string) holder {
	var h holder
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return h
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil || pid <= 0 {
		return h
	}
	return holder{host: fields[0], pid: pid, place: fields[2]}
}

// gone reports whether the process is known to have ended. False tells nothing: it
// may run elsewhere, or something else may have its number.
func (h holder) gone() bool {
	return h.place != "" && h.place == thisHolder().place && errors.Is(syscall.Kill(h.pid, 0), syscall.ESRCH)
}
