// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
)

func TestDevices(t *testing.T) {
	none := file(t, "none.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
	tests := []commandCase{
		{name: "help", args: []string{"--help"}, wantStdout: []string{"kubectl berth devices [NODE…]", "Exit codes: 0 shown; 1 the cluster or a file could not be read", "--as string"}},
		{name: "devices", args: []string{"-f", objects}, wantStdout: []string{"NODE", "ALLOCATED TO", "team/running (600m 9830Mi)"}},
		{name: "a folder", args: []string{"-f", "testdata"}, wantStdout: []string{"team/running"}},
		{name: "wide", args: []string{"-f", objects, "-o", "wide"}, wantStdout: []string{"UUID", "16384Mi"}},
		{name: "without a header", args: []string{"-f", objects, "--no-headers", "--by", "model"}},
		{name: "pods of a namespace", args: []string{"-f", objects, "-n", "other", "--by", "pod"}, wantStdout: []string{"NAMESPACE   POD"}},
		{name: "all namespaces", args: []string{"-f", objects, "-n", "other", "-A", "--by", "pod"}, wantStdout: []string{"running"}},
		{name: "the labels of a profile", args: []string{"-f", objects, "--config", gpuProfile}, wantStdout: []string{"team/running"}},
		{name: "no devices", args: []string{"-f", none}, wantStderr: []string{"No node has devices that Berth knows of"}},
		{name: "a node that is not there", args: []string{"-f", objects, "nowhere"}, wantCode: exitFailed, wantStderr: []string{"no node with devices is named nowhere"}},
		{name: "a missing file", args: []string{"-f", "testdata/none.yaml"}, wantCode: exitFailed, wantStderr: []string{"-f: open testdata/none.yaml: no such file"}},
		{name: "a profile without the plugin", args: []string{"-f", objects, "--config", stockProfile}, wantCode: exitFailed, wantStderr: []string{"no profile runs GPUDevice"}},
		{name: "no cluster", args: []string{"--kubeconfig", "testdata/none"}, wantCode: exitFailed, wantStderr: []string{"--kubeconfig testdata/none: "}},
		{name: "rows for what there are none", args: []string{"-f", objects, "--by", "rack"}, wantCode: exitUsage, wantStderr: []string{`--by: invalid value "rack": must be one of device, node, pod, namespace, model, claim`}},
		{name: "an output that is none", args: []string{"-f", objects, "-o", "csv"}, wantCode: exitUsage, wantStderr: []string{`-o: invalid value "csv": must be one of table, wide, json, yaml`}},
		{name: "files that are watched", args: []string{"-f", objects, "--watch"}, wantCode: exitUsage, wantStderr: []string{"--watch: files do not change"}},
		{name: "a file twice", args: []string{"-f", objects, "-f", objects}, wantCode: exitUsage, wantStderr: []string{"-f: testdata/cluster.yaml is given more than once"}},
	}
	runCases(t, tests, "devices")
}

// TestDevicesInREADME: the page shows what is printed.
func TestDevicesInREADME(t *testing.T) {
	code, stdout, stderr := execute(t, "", "devices", "-f", "testdata/devices")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if !strings.Contains(read(t, "README.md"), "```text\n"+stdout+"```\n") {
		t.Errorf("README.md does not show\n%s", stdout)
	}
}

// TestDevicesForPrograms: JSON and YAML say the same, and name the version of the format.
func TestDevicesForPrograms(t *testing.T) {
	reported := forPrograms[deviceusage.Report](t, read(t, objects), exitOK, "devices", "-f", "-")
	if reported.FormatVersion != deviceusage.FormatVersion || len(reported.Nodes) == 0 {
		t.Errorf("unexpected report %+v", reported)
	}
}

// forPrograms runs a command that prints a report as JSON and as YAML, which have to say
// the same, and returns the report.
func forPrograms[R any](t *testing.T, stdin string, wantCode int, args ...string) R {
	t.Helper()
	var reports [2]R
	var again [2]string
	for i, format := range []string{outputJSON, outputYAML} {
		code, stdout, stderr := execute(t, stdin, append(slices.Clip(args), "-o", format)...)
		if code != wantCode {
			t.Fatalf("-o %s: exit code %d: %s", format, code, stderr)
		}
		var err error
		if format == outputJSON {
			err = json.Unmarshal([]byte(stdout), &reports[i])
		} else {
			err = yaml.UnmarshalStrict([]byte(stdout), &reports[i])
		}
		if err != nil {
			t.Fatalf("-o %s: %v in\n%s", format, err, stdout)
		}
		content, err := json.Marshal(reports[i])
		if err != nil {
			t.Fatal(err)
		}
		again[i] = string(content)
	}
	if diff := cmp.Diff(again[0], again[1]); diff != "" {
		t.Errorf("json and yaml (-json,+yaml):\n%s", diff)
	}
	return reports[0]
}

// TestCompletion completes what needs no cluster, by the names under which a shell and
// kubectl ask.
func TestCompletion(t *testing.T) {
	kubeconfig := file(t, "kubeconfig", `{"apiVersion":"v1","kind":"Config","contexts":[{"name":"east","context":{"cluster":"a"}},{"name":"west","context":{"cluster":"a"}}]}`)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"dev"}, "devices"},
		{[]string{"devices", "--by", "n"}, "node\nnamespace"},
		{[]string{"devices", "-o", ""}, "table\nwide\njson\nyaml"},
		{[]string{"devices", "--kubeconfig", kubeconfig, "--context", "e"}, "east"},
		{[]string{"devices", "--kubeconfig", kubeconfig + "-none", ""}, ""},
	} {
		for _, name := range []string{"kubectl-berth __complete", "/usr/bin/kubectl_complete-berth"} {
			code, stdout, _ := execute(t, "", arguments(append(strings.Fields(name), tt.args...))...)
			var got []string
			for line := range strings.Lines(stdout) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				if !strings.HasPrefix(word, ":") {
					got = append(got, word)
				}
			}
			if code != exitOK || strings.Join(got, "\n") != tt.want {
				t.Errorf("%s %q: exit code %d, completions %q, want %q", name, tt.args, code, got, tt.want)
			}
		}
	}
}
