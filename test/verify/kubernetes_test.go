// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// moduleVersions returns the lines of a go.mod that mention a module below
// k8s.io/ with the version of Kubernetes or of its staging modules.
func moduleVersions(t *testing.T, dir string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// kubernetesVersion is what go.mod requires, without its major version: 36.3.
func kubernetesVersion(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v1\.(\S+)$`).FindStringSubmatch(moduleVersions(t, root(t)))
	if match == nil {
		t.Fatal("go.mod: k8s.io/kubernetes: no version")
	}
	return match[1]
}

// TestKubernetesModulesMoveTogether finds a replaced staging module, or a code
// generator, of another version than k8s.io/kubernetes.
func TestKubernetesModulesMoveTogether(t *testing.T) {
	want := "v0." + kubernetesVersion(t)
	replaced := regexp.MustCompile(`(?m)^replace k8s\.io/\S+ => (k8s\.io/\S+) (\S+)$`).FindAllStringSubmatch(moduleVersions(t, root(t)), -1)
	if len(replaced) < 20 {
		t.Fatalf("go.mod: %d replaced staging modules, want all of them", len(replaced))
	}
	for _, match := range replaced {
		if match[2] != want {
			t.Errorf("go.mod: replace %s: version %s, want %s (hack/update-k8s.sh moves them together)", match[1], match[2], want)
		}
	}
	generators := regexp.MustCompile(`(?m)^\s*k8s\.io/code-generator (\S+)`).FindStringSubmatch(moduleVersions(t, filepath.Join(root(t), "hack/tools")))
	if generators == nil || generators[1] != want {
		t.Errorf("hack/tools/go.mod: k8s.io/code-generator %v, want %s", generators, want)
	}
}

// TestUpdateKubernetes plans a move of a checkout of its own, whose go.mod names
// another patch release, to the version of this repository: that one is in the
// module cache, so the test needs no network.
func TestUpdateKubernetes(t *testing.T) {
	here := kubernetesVersion(t)
	minor, _, _ := strings.Cut(here, ".")
	checkout := t.TempDir()
	other := minor + ".99"
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(checkout, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goMod := `module example.com/checkout

go 1.26.0

require (
	github.com/spf13/cobra v1.10.2
	k8s.io/api v0.OTHER
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubectl v0.0.0
	k8s.io/kubernetes v1.OTHER
)

require k8s.io/apimachinery v0.OTHER // indirect

replace k8s.io/api => k8s.io/api v0.OTHER

replace k8s.io/removed => k8s.io/removed v0.OTHER
`
	write("go.mod", strings.ReplaceAll(goMod, "OTHER", other))
	write("hack/tools/go.mod", "module example.com/checkout/hack/tools\n\ngo 1.26.0\n\nrequire k8s.io/code-generator v0."+other+"\n")
	before := moduleVersions(t, checkout)

	update := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), filepath.Join(root(t), "hack/update-k8s.sh"), append([]string{"--root", checkout}, args...)...)
		out, err := command.CombinedOutput()
		return string(out), err
	}

	t.Run("dry run", func(t *testing.T) {
		out, err := update("--dry-run", "v1."+here)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{
			"go.mod: require k8s.io/kubernetes v1." + other + " -> v1." + here,
			"go.mod: require k8s.io/api v0." + other + " -> v0." + here,
			"go.mod: require k8s.io/apimachinery v0." + other + " -> v0." + here,
			"go.mod: replace k8s.io/api v0." + other + " -> v0." + here,
			"go.mod: replace k8s.io/client-go (none) -> v0." + here,
			"hack/tools/go.mod: require k8s.io/code-generator v0." + other + " -> v0." + here,
			"note: go.mod replaces k8s.io/removed by v0." + other,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("the plan lacks %q", want)
			}
		}
		for _, not := range []string{"klog", "cobra", "require k8s.io/kubectl"} {
			if strings.Contains(out, not) {
				t.Errorf("the plan touches %s", not)
			}
		}
		if t.Failed() {
			t.Log(out)
		}
		if diff := cmp.Diff(before, moduleVersions(t, checkout)); diff != "" {
			t.Errorf("a dry run changed go.mod (-want,+got):\n%s", diff)
		}
	})

	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no version", nil, "usage:"},
		{"two versions", []string{"v1.36.3", "v1.36.2"}, "usage:"},
		{"no patch release", []string{"v1.36"}, "VERSION v1.36: want v1.MINOR.PATCH"},
		{"version of a staging module", []string{"v0.36.3"}, "VERSION v0.36.3: want v1.MINOR.PATCH"},
		{"unknown option", []string{"--force", "v1.36.3"}, "usage:"},
		{"no checkout", []string{"--root", filepath.Join(checkout, "hack"), "v1.36.3"}, "no go.mod there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := update(tt.args...)
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("got %v, %q; want a failure that says %q", err, out, tt.want)
			}
			if diff := cmp.Diff(before, moduleVersions(t, checkout)); diff != "" {
				t.Errorf("go.mod changed (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestUpdateKubernetesRestores moves a checkout whose code does not build, which
// stands for a version that it does not build with. It has no Kubernetes to download:
// what it needs is in the module cache.
func TestUpdateKubernetesRestores(t *testing.T) {
	here := kubernetesVersion(t)
	for _, tt := range []struct {
		name, code string
		want       []string
		moved      bool
	}{
		{name: "does not build", code: "package checkout\n\nvar x int = \"\"\n", want: []string{"building everything", "the module files are as they were"}},
		{name: "builds", code: "package checkout\n", want: []string{"moved to v1." + here, "to do: README.md", "to do: hack/image/Dockerfile"}, moved: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkout := t.TempDir()
			for name, content := range map[string]string{
				// The other version is named where nothing is loaded from.
				"go.mod":                "module example.com/checkout\n\ngo 1.26.0\n\nreplace k8s.io/api => k8s.io/api v0.36.99\n",
				"hack/tools/go.mod":     "module example.com/checkout/hack/tools\n\ngo 1.26.0\n",
				"checkout.go":           tt.code,
				"README.md":             "Kubernetes 1.0.0\n",
				"hack/image/Dockerfile": "ARG GO_IMAGE=golang:1.0\n",
			} {
				path := filepath.Join(checkout, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := moduleVersions(t, checkout)
			command := exec.CommandContext(t.Context(), filepath.Join(root(t), "hack/update-k8s.sh"), "--root", checkout, "v1."+here)
			out, err := command.CombinedOutput()
			if (err == nil) != tt.moved {
				t.Errorf("moved: want %t, got %v", tt.moved, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("want %q in the output", want)
				}
			}
			if same := before == moduleVersions(t, checkout); same == tt.moved {
				t.Errorf("go.mod is as it was: %t", same)
			}
			if t.Failed() {
				t.Log(string(out))
			}
		})
	}
}
