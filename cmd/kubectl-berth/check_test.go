// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/berth-scheduler/berth/pkg/check"
)

func TestCheck(t *testing.T) {
	const wrong = "../berth-scheduler/testdata/wrong/tenancy-differs.yaml"
	tests := []commandCase{
		{name: "help", args: []string{"--help"}, wantStdout: []string{"kubectl berth check [--config PROFILE.yaml]", "5 something was found"}},
		{name: "a good profile", args: []string{"--config", gpuProfile}, wantStdout: []string{"Nothing was found. Schedulers: " + gpuProfile + ": berth-scheduler"}},
		{name: "a profile of gangs", args: []string{"--config", gangProfile, "--severity", "error"}, wantStdout: []string{"Nothing was found."}},
		{name: "a wrong profile", args: []string{"--config", wrong}, wantCode: exitFound, wantStdout: []string{"SEVERITY", "profiles[1].pluginConfig[LabelPresence].args.tenancy.tenants"}},
		{name: "as YAML", args: []string{"--config", wrong, "-o", "yaml"}, wantCode: exitFound, wantStdout: []string{"formatVersion: 1", "wayOut: "}},
		{name: "a file that is not there", args: []string{"--config", "testdata/none.yaml"}, wantCode: exitFailed, wantStderr: []string{"--config: open testdata/none.yaml: no such file"}},
		{name: "no cluster", args: []string{"--kubeconfig", "testdata/none"}, wantCode: exitFailed, wantStderr: []string{"--kubeconfig testdata/none: "}},
		{name: "an output that is none", args: []string{"--config", gpuProfile, "-o", "wide"}, wantCode: exitUsage, wantStderr: []string{`-o: "wide" is none of table, json, yaml`}},
		{name: "a severity that is none", args: []string{"--config", gpuProfile, "--severity", "info"}, wantCode: exitUsage, wantStderr: []string{`--severity: "info" is none of warning, error`}},
		{name: "an argument", args: []string{"profile.yaml"}, wantCode: exitUsage, wantStderr: []string{`unexpected argument "profile.yaml"`}},
	}
	runCases(t, tests, "check")
}

// TestCheckProfiles: of the shipped profiles there is nothing to find, and of each that a
// start refuses there is, with a way out.
func TestCheckProfiles(t *testing.T) {
	for pattern, wantCode := range map[string]int{
		"../../config/berth-scheduler/[^k]*.yaml":  exitOK, // no kustomization
		"../berth-scheduler/testdata/wrong/*.yaml": exitFound,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			code, stdout, stderr := execute(t, "", "check", "--config", file, "-o", "json")
			var report check.Report
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != wantCode {
				t.Errorf("%s: exit code %d, want %d (%v):\n%s\n%s", file, code, wantCode, err, stdout, stderr)
			}
			for _, f := range report.Findings {
				if f.Message == "" || f.WayOut == "" || f.Object != file || f.Severity != check.Error {
					t.Errorf("%s: finding %+v", file, f)
				}
			}
		}
	}
}
