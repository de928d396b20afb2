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

// moduleFiles are the module files of this repository, one for each minor release of
// Kubernetes that it is built on. The code generators go with the first.
var moduleFiles = []string{"go.mod", "hack/k8s-1.36.mod"}

// readModule returns what is in a module file.
func readModule(t *testing.T, dir, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// kubernetesVersion is what a module file requires, without its major version: 37.1.
func kubernetesVersion(t *testing.T, file string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v1\.(\S+)$`).FindStringSubmatch(readModule(t, root(t), file))
	if match == nil {
		t.Fatalf("%s: k8s.io/kubernetes: no version", file)
	}
	return match[1]
}

// TestKubernetesModulesMoveTogether finds a replaced staging module, or a code
// generator, of another version than k8s.io/kubernetes.
func TestKubernetesModulesMoveTogether(t *testing.T) {
	for _, file := range moduleFiles {
		want := "v0." + kubernetesVersion(t, file)
		replaced := regexp.MustCompile(`(?m)^replace k8s\.io/\S+ => (k8s\.io/\S+) (\S+)$`).FindAllStringSubmatch(readModule(t, root(t), file), -1)
		if len(replaced) < 20 {
			t.Fatalf("%s: %d replaced staging modules, want all of them", file, len(replaced))
		}
		for _, match := range replaced {
			if match[2] != want {
				t.Errorf("%s: replace %s: version %s, want %s (hack/update-k8s.sh moves them together)", file, match[1], match[2], want)
			}
		}
	}
	want := "v0." + kubernetesVersion(t, moduleFiles[0])
	generators := regexp.MustCompile(`(?m)^\s*k8s\.io/code-generator (\S+)`).FindStringSubmatch(readModule(t, root(t), "hack/tools/go.mod"))
	if generators == nil || generators[1] != want {
		t.Errorf("hack/tools/go.mod: k8s.io/code-generator %v, want %s", generators, want)
	}
}

// TestUpdateKubernetes plans moves of a checkout of its own, whose module files name
// other patch releases, to the versions of this repository: those are in the module
// cache, so the test needs no network.
func TestUpdateKubernetes(t *testing.T) {
	checkout := t.TempDir()
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
	other := func(file string) string {
		minor, _, _ := strings.Cut(kubernetesVersion(t, file), ".")
		return minor + ".99"
	}
	for _, file := range moduleFiles {
		write(file, strings.ReplaceAll(goMod, "OTHER", other(file)))
	}
	write("hack/tools/go.mod", "module example.com/checkout/hack/tools\n\ngo 1.26.0\n\nrequire k8s.io/code-generator v0."+other("go.mod")+"\n")
	all := func() string {
		var content strings.Builder
		for _, file := range append([]string{"hack/tools/go.mod"}, moduleFiles...) {
			content.WriteString(readModule(t, checkout, file))
		}
		return content.String()
	}
	before := all()

	update := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), filepath.Join(root(t), "hack/update-k8s.sh"), append([]string{"--root", checkout}, args...)...)
		out, err := command.CombinedOutput()
		return string(out), err
	}

	for _, file := range moduleFiles {
		t.Run("dry run of "+file, func(t *testing.T) {
			here, other := kubernetesVersion(t, file), other(file)
			out, err := update("--dry-run", "v1."+here)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{
				file + ": require k8s.io/kubernetes v1." + other + " -> v1." + here,
				file + ": require k8s.io/api v0." + other + " -> v0." + here,
				file + ": require k8s.io/apimachinery v0." + other + " -> v0." + here,
				file + ": replace k8s.io/api v0." + other + " -> v0." + here,
				file + ": replace k8s.io/client-go (none) -> v0." + here,
				"note: " + file + " replaces k8s.io/removed by v0." + other,
			} {
				if !strings.Contains(out, want) {
					t.Errorf("the plan lacks %q", want)
				}
			}
			generators := "hack/tools/go.mod: require k8s.io/code-generator v0." + other + " -> v0." + here
			if got, want := strings.Contains(out, generators), file == "go.mod"; got != want {
				t.Errorf("the plan moves the generators: %t, want %t", got, want)
			}
			not := []string{"klog", "cobra", "require k8s.io/kubectl"}
			for _, another := range moduleFiles {
				if another != file {
					not = append(not, "\n"+another+": ")
				}
			}
			for _, not := range not {
				if strings.Contains(out, not) {
					t.Errorf("the plan touches %s", not)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
			if diff := cmp.Diff(before, all()); diff != "" {
				t.Errorf("a dry run changed a module file (-want,+got):\n%s", diff)
			}
		})
	}

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
			if diff := cmp.Diff(before, all()); diff != "" {
				t.Errorf("a module file changed (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestUpdateKubernetesRestores moves a checkout whose code does not build, which
// stands for a version that it does not build with. It has no Kubernetes to download:
// what it needs is in the module cache.
func TestUpdateKubernetesRestores(t *testing.T) {
	here := kubernetesVersion(t, "go.mod")
	for _, tt := range []struct {
		name, code string
		want       []string
		moved      bool
	}{
		{name: "does not build", code: "package checkout\n\nvar x int = \"\"\n", want: []string{"building everything", "the module files are as they were"}},
		{name: "builds", code: "package checkout\n", want: []string{"moved to v1." + here, "to do: README.md", "to do: Makefile: build releases"}, moved: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkout := t.TempDir()
			for name, content := range map[string]string{
				// The other version is named where nothing is loaded from.
				"go.mod":            "module example.com/checkout\n\ngo 1.26.0\n\nreplace k8s.io/api => k8s.io/api v0.36.99\n",
				"hack/tools/go.mod": "module example.com/checkout/hack/tools\n\ngo 1.26.0\n",
				"checkout.go":       tt.code,
				"README.md":         "Kubernetes 1.0.0\n",
				"Makefile":          "RELEASE_GO := go1.0.1\n",
			} {
				path := filepath.Join(checkout, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := readModule(t, checkout, "go.mod")
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
			if same := before == readModule(t, checkout, "go.mod"); same == tt.moved {
				t.Errorf("go.mod is as it was: %t", same)
			}
			if t.Failed() {
				t.Log(string(out))
			}
		})
	}
}
