// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// DescribeMachine says what machine this is, and how busy it is now. What the
// system does not tell is left out: CPU, memory and load are read from /proc, and
// are known on Linux only.
func DescribeMachine() Machine {
	return describeMachine(os.DirFS("/"))
}

// describeMachine reads the files of root.
func describeMachine(root fs.FS) Machine {
	machine := Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU()}
	if name := strings.Trim(valueOf(root, "etc/os-release", "PRETTY_NAME", "="), `"'`); name != "" {
		machine.OS += ", " + name
	}
	if content, err := fs.ReadFile(root, "proc/sys/kernel/osrelease"); err == nil {
		machine.OS += ", kernel " + strings.TrimSpace(string(content))
	}
	machine.CPU = strings.Join(strings.Fields(valueOf(root, "proc/cpuinfo", "model name", ":")), " ")
	if kibibytes, ok := strings.CutSuffix(valueOf(root, "proc/meminfo", "MemTotal", ":"), " kB"); ok {
		if total, err := strconv.ParseInt(strings.TrimSpace(kibibytes), 10, 64); err == nil {
			machine.MemoryMiB = total / 1024
		}
	}
	if content, err := fs.ReadFile(root, "proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(content), " ")
		if load, err := strconv.ParseFloat(first, 64); err == nil && load >= 0 && !math.IsInf(load, 0) {
			machine.LoadBefore = &load
		}
	}
	return machine
}

// valueOf returns what stands behind the first occurrence of a key in a file of
// lines "key separator value", or nothing.
func valueOf(root fs.FS, file, key, separator string) string {
	content, err := fs.ReadFile(root, file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
