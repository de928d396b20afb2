// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	head     = "apiVersion: bench.berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: test}\n"
	onePod   = "  pods: [{name: a, count: 1}]\n"
	smallest = head + "spec:\n" + oneNode + onePod
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRead shows what Read adds to what a file says.
func TestRead(t *testing.T) {
	path := write(t, "# A comment.\n---\n"+smallest+"  applications: [{name: shop, replicas: 3, services: [{name: x}, {name: z, replicas: 2}]}]\n")
	w, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if w.Path != path || w.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("The file is %s with SHA-256 %s, want %s with %x", w.Path, w.SHA256, path, sum)
	}
	spec := &w.Spec
	app := &spec.Applications[0]
	got := []any{
		spec.Seed, spec.Rounds, spec.RoundTimeout.Duration, spec.ClientQPS, spec.Order, spec.Arrival.Type,
		spec.Nodes[0].NamePrefix, *spec.Nodes[0].Pods, *app.Copies, app.Colocate, *app.Services[0].Replicas, *app.Services[1].Replicas,
	}
	want := []any{int64(0), 3, 5 * time.Minute, 5000.0, Shuffled, Burst, "node", int64(110), 1, Neighbours, 3, 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected defaults (-want,+got):\n%s", diff)
	}
	if spec.Nodes[0].CPU.MilliValue() != 4000 || spec.Nodes[0].Memory.Value() != 8<<30 {
		t.Errorf("The node has %s CPUs and %s of memory", spec.Nodes[0].CPU.String(), spec.Nodes[0].Memory.String())
	}
}

func TestProfile(t *testing.T) {
	path := write(t, smallest+"  profiles: {one: sub/one.yaml}\n")
	if err := os.Mkdir(filepath.Join(filepath.Dir(path), "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(filepath.Dir(path), "sub", "one.yaml")
	if err := os.WriteFile(profile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := w.Profile("one"); !ok || got != profile {
		t.Errorf("Profile is %q, %v, want %q", got, ok, profile)
	}
	if got, ok := w.Profile("other"); ok {
		t.Errorf("There is a profile %q for a scheduler that the file does not name", got)
	}
	t.Run("missing", func(t *testing.T) {
		_, err := Read(write(t, smallest+"  profiles: {one: nowhere.yaml, two: .}\n"))
		if err == nil || !strings.Contains(err.Error(), `spec.profiles[one]: Invalid value: "nowhere.yaml": stat `) ||
			!strings.Contains(err.Error(), `spec.profiles[two]: Invalid value: ".": is not a file`) {
			t.Errorf("Unexpected error: %v", err)
		}
	})
}

// TestReadErrors shows what is told of a file that is no workload at all.
func TestReadErrors(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		_, err := Read(filepath.Join(t.TempDir(), "nowhere.yaml"))
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "workload file: open ") {
			t.Errorf("Unexpected error: %v", err)
		}
	})
	for _, tt := range []struct {
		name, content string
		want          []string
	}{
		{"empty", "", []string{"the file is empty"}},
		{"comments only", "# nothing\n---\n# at all\n", []string{"the file is empty"}},
		{"no YAML", "a: [", []string{"yaml: line 1: did not find expected node content"}},
		{"no object", "[1, 2]", []string{"is not a Kubernetes object: want apiVersion, kind, metadata and spec"}},
		{"another kind", "apiVersion: v1\nkind: Pod\n", []string{"is apiVersion v1, kind Pod: must be bench.berth.dev/v1alpha1, Workload"}},
		{"no kind", "apiVersion: bench.berth.dev/v1alpha1\n", []string{"is apiVersion bench.berth.dev/v1alpha1, kind (none): must be bench.berth.dev/v1alpha1, Workload"}},
		{"another version", strings.Replace(smallest, "v1alpha1", "v1", 1), []string{"is apiVersion bench.berth.dev/v1, kind Workload: must be bench.berth.dev/v1alpha1, Workload"}},
		{"two documents", smallest + "---\n" + smallest, []string{"holds several documents: a workload is a file of its own"}},
		{"a key twice", smallest + "  seed: 1\n  seed: 2\n", []string{`yaml: unmarshal errors:`, `line 8: key "seed" already set in map`}},
		{"a wrong type", smallest + "  rounds: three\n", []string{"spec.rounds: a string cannot be a value of this field"}},
		{"a boolean by accident", head + "spec:\n" + oneNode + "  pods: [{name: on, count: 1}]\n", []string{"spec.pods.name: a bool cannot be a value of this field (in YAML, y, n, yes, no, on and off are booleans unless they stand in quotes)"}},
		{
			"unknown fields, and all other errors with them", smallest + "  round: 3\n  rounds: 0\n  arrival: {Type: Burst}\n",
			[]string{
				`unknown field "spec.arrival.Type"`, `unknown field "spec.round"`, "spec.rounds: Invalid value: 0: must be between 1 and 100",
			},
		},
		{"a field of pods in a service", smallest + "  applications: [{name: a, services: [{name: b, gpu: {count: 1}}]}]\n", []string{`unknown field "spec.applications[0].services[0].gpu"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.content)
			_, err := Read(path)
			if err == nil {
				t.Fatal("There is no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("Got %d lines, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, line := range lines {
				if !strings.Contains(line, tt.want[i]) || i == 0 && !strings.HasPrefix(line, path+": ") {
					t.Errorf("Line %d is %q, want the file's name and %q", i, line, tt.want[i])
				}
			}
		})
	}
}
