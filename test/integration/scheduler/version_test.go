// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestVersion asks the binaries themselves: what is linked in beside our code
// registers a --version of its own, which got in the way once.
func TestVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binaries: skipped under -short")
	}
	for _, binary := range []string{framework.BerthLocal, framework.BerthScheduler, framework.RandomScheduler} {
		t.Run(binary, func(t *testing.T) {
			process := framework.StartProcess(t, binary, "--version")
			if code := process.Wait(t, framework.WaitTimeout); code != 0 {
				t.Errorf("exit code %d", code)
			}
			// The Kubernetes version is the linker's work: without it the API
			// server's answer to clients would not be one.
			if got := process.Output(); !strings.HasPrefix(got, binary+" v") || !strings.Contains(got, "(Kubernetes v1.") {
				t.Errorf("unexpected version line %q", got)
			}
			// As Kubernetes' own programs have it.
			raw := framework.StartProcess(t, binary, "--version=raw")
			if code := raw.Wait(t, framework.WaitTimeout); code != 0 || !strings.Contains(raw.Output(), `version.Info{Major:"1"`) {
				t.Errorf("--version=raw: exit code %d, output %q", code, raw.Output())
			}
		})
	}
}
