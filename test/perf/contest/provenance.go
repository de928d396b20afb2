// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Provenance says when and where something was measured.
type Provenance struct {
	Date string `json:"date"`
	// Commit is that of the checkout, with -dirty behind it if files differ from it,
	// or "unknown" outside one.
	Commit string `json:"commit"`
	// Machine is the platform, the number of CPUs that Go sees, and their model.
	Machine string `json:"machine"`
}

func provenance() Provenance {
	commit := "unknown"
	if output, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output(); err == nil {
		commit = string(bytes.TrimSpace(output))
	}
	machine := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if model := cpuModel(); model != "" {
		machine += ", " + model
	}
	return Provenance{Date: time.Now().UTC().Format(time.DateOnly), Commit: commit, Machine: machine}
}

// cpuModel returns what Linux calls the first CPU, or nothing.
func cpuModel() string {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
