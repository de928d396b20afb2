// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	root    = "../.."
	shipped = "config/berth-scheduler/tenancy.yaml"
)

func readShipped(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, shipped))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The policies that are shipped are those that the shipped profile makes.
func TestComponentAgreesWithTheProfile(t *testing.T) {
	files, err := generate(shipped, readShipped(t))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "manifests/components/tenancy")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(files) {
		t.Errorf("%s has %d files, the profile makes %d", folder, len(entries), len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what %s says: run go run ./hack/tenancypolicies (-want,+got):\n%s", name, shipped, diff)
		}
	}
}

// Whoever has other names changes the profile alone: every name that the file
// says reaches the policies, and none of the shipped ones stays.
func TestOtherNames(t *testing.T) {
	renamed := strings.NewReplacer(
		"schedulerName: berth-tenancy", "schedulerName: acme's-tenancy",
		"nodeLabelKey: berth.dev.node-restriction.kubernetes.io/tenant", "nodeLabelKey: acme.node-restriction.kubernetes.io/team",
		"nodeTaintKey: berth.dev/tenant", "nodeTaintKey: acme.example/taint",
		"namespaceLabelKey: berth.dev/tenant", "namespaceLabelKey: acme.example/team",
		"exemptNamespaces: [kube-system, berth-system]", `exemptNamespaces: ["123"]`,
	).Replace(string(readShipped(t)))
	files, err := generate("config/berth-scheduler/acme.yaml", []byte(renamed))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for name, content := range files {
		all.Write(content)
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, want := range []string{`acme\\'s-tenancy`, "'acme.node-restriction.kubernetes.io/team'", "'acme.example/taint'", "'acme.example/team'", `["123"]`, "/etc/berth-scheduler/acme.yaml"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%s is nowhere", want)
		}
	}
	for _, old := range []string{"'berth-tenancy'", "berth.dev/tenant'", "berth.dev.node-restriction", "kube-system", "/tenancy.yaml"} {
		if strings.Contains(all.String(), old) {
			t.Errorf("%s is left", old)
		}
	}
}

func TestRefusedProfiles(t *testing.T) {
	tests := []struct{ name, old, replacement, want string }{
		{
			name: "a name that anybody may serve", old: "schedulerName: berth-tenancy", replacement: "schedulerName: berth-scheduler",
			want: `profiles[0].schedulerName: is "berth-scheduler", must end in "-tenancy"`,
		},
		{
			name: "what the scheduler refuses", old: "nodeTaintKey: berth.dev/tenant", replacement: "nodeTaintKey: ''",
			want: "tenancy.nodeTaintKey: Required value",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			content := strings.Replace(string(readShipped(t)), tt.old, tt.replacement, 1)
			if _, err := generate("f.yaml", []byte(content)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want an error with %q, got %v", tt.want, err)
			}
		})
	}
}
