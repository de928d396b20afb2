// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/bench/report"
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
	machine := report.DescribeMachine()
	return Provenance{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit,
		Machine: strings.TrimSuffix(fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, machine.Cores, machine.CPU), ", "),
	}
}
