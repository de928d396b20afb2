// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestGangProfileIsTheGPUProfile makes sure that gpu-gang.yaml does what gpu.yaml
// does, but for Coscheduling.
func TestGangProfileIsTheGPUProfile(t *testing.T) {
	want, got := decode(t, gpuProfile), decode(t, gangProfile)
	profile := got["profiles"].([]any)[0].(map[string]any)
	multiPoint := profile["plugins"].(map[string]any)["multiPoint"].(map[string]any)
	if diff := cmp.Diff([]any{map[string]any{"name": "PrioritySort"}}, multiPoint["disabled"]); diff != "" {
		t.Errorf("Unexpected disabled plugins (-want,+got):\n%s", diff)
	}
	delete(multiPoint, "disabled")
	multiPoint["enabled"] = without(t, multiPoint["enabled"], "Coscheduling")
	profile["pluginConfig"] = without(t, profile["pluginConfig"], "Coscheduling")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("The profiles differ by more than Coscheduling (-gpu,+gpu-gang):\n%s", diff)
	}
}

// TestPodGroupDefinition makes sure that the CRD we ship is the one of the module
// that is compiled in.
func TestPodGroupDefinition(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins")
	list.Dir = framework.Root()
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	module := read(t, filepath.Join(strings.TrimSpace(string(dir)), "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"))
	shipped := read(t, filepath.Join(framework.Root(), "manifests/components/gang/podgroups.yaml"))
	_, shipped, _ = strings.Cut(shipped, "---\n")
	if diff := cmp.Diff(module, "---\n"+shipped); diff != "" {
		t.Errorf("the CRD differs from the module's (-module,+shipped):\n%s", diff)
	}
}

// TestGangSchedulingComponent builds manifests/README.md's kustomization of PodGroups: the
// profile stays, and the scheduler has the gates of the tests here.
func TestGangSchedulingComponent(t *testing.T) {
	dir := t.TempDir()
	relative, err := filepath.Rel(dir, install.Path("manifests"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- MANIFESTS/base
components:
- MANIFESTS/components/gpu
- MANIFESTS/components/gangscheduling
`, "MANIFESTS", relative)
	want := []string{"--config=/etc/berth-scheduler/gpu.yaml", "--feature-gates=GenericWorkload=true"}
	for _, further := range []struct{ component, argument string }{
		{},
		{"- " + relative + "/components/gangscheduling-1.36\n", "--feature-gates=GangScheduling=true,WorkloadAwarePreemption=true"},
	} {
		if further.argument != "" {
			want = append(want, further.argument)
		}
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text+further.component), 0o600); err != nil {
			t.Fatal(err)
		}
		deployment := install.Find[appsv1.Deployment](t, install.Build(t, dir), "Deployment", names.Scheduler)
		if diff := cmp.Diff(want, deployment.Spec.Template.Spec.Containers[0].Args); diff != "" {
			t.Errorf("Unexpected arguments with %q (-want,+got):\n%s", further.component, diff)
		}
	}
}

// without returns list without its one item of that name.
func without(t *testing.T, list any, name string) []any {
	t.Helper()
	var kept []any
	for _, item := range list.([]any) {
		if item.(map[string]any)["name"] != name {
			kept = append(kept, item)
		}
	}
	if len(kept) != len(list.([]any))-1 {
		t.Errorf("%s is not there once", name)
	}
	return kept
}

func decode(t *testing.T, file string) map[string]any {
	t.Helper()
	var decoded map[string]any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(framework.Root(), file))), &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
