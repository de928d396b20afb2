// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// combined are the features of which every combination has to work; the random scheduler
// is a Deployment of its own.
var combined = []string{"labelPresence", "gpu", "gang", "colocation", "tenancy"}

// combinations returns all sets of features.
func combinations() [][]string {
	var sets [][]string
	for bits := range 1 << len(combined) {
		set := []string{}
		for i, name := range combined {
			if bits&(1<<i) != 0 {
				set = append(set, name)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

func nameOf(set []string) string {
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(set, "+")
}

// The profile of a set of features is the one that config/berth-scheduler documents for
// it, decoded and with defaults.
func TestProfilesAreTheDocumentedOnes(t *testing.T) {
	h := newHelm(t, "4", "")
	tests := []struct {
		file     string
		features []string
		more     values
		but      string // an extension point that differs
	}{
		// gpu.yaml has GPUDevice's Filter run first, which changes no placement.
		{file: "all-plugins.yaml", features: []string{"labelPresence", "gpu", "colocation"}, but: "filter"},
		{
			file: "labelpresence.yaml", features: []string{"labelPresence"},
			more: values{"labelPresence": values{"args": values{"rules": []any{values{"labels": []any{"selectable"}, "presence": true}}}}},
		},
		{file: "gpu.yaml", features: []string{"gpu"}},
		{file: "colocation.yaml", features: []string{"colocation"}},
		{file: "tenancy.yaml", features: []string{"tenancy"}, more: values{"profile": names.TenancyScheduler}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			v := features(tt.features...)
			maps.Copy(v, tt.more)
			documented, err := os.ReadFile(install.Path("config/berth-scheduler", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			want := load(t, tt.file, string(documented))
			text := profile(t, h.render(t, names.Scheduler, names.Namespace, v), names.Scheduler)
			if tt.but != "" {
				text = without(t, text, tt.but)
			}
			got := load(t, "chart", text)
			if diff := cmp.Diff(want.Config, got.Config); diff != "" {
				t.Errorf("not what config/berth-scheduler/%s says (-want,+got):\n%s", tt.file, diff)
			}
			if diff := cmp.Diff(want.Effective, got.Effective); diff != "" {
				t.Errorf("runs other plugins (-want,+got):\n%s", diff)
			}
		})
	}
}

// The profile of gangs by Coscheduling is gpu-gang.yaml, word for word: not every build has
// the plugin, to load it.
func TestGangsByCoscheduling(t *testing.T) {
	v := features("gpu", "gang")
	v["gang"] = values{"by": "Coscheduling"}
	objects := newHelm(t, "4", "").render(t, names.Scheduler, names.Namespace, v)
	documented, err := os.ReadFile(install.Path("config/berth-scheduler/gpu-gang.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	for text, into := range map[string]*map[string]any{string(documented): &want, profile(t, objects, names.Scheduler): &got} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
		byName := func(a, b any) int {
			return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
		}
		slices.SortFunc((*into)["profiles"].([]any)[0].(map[string]any)["pluginConfig"].([]any), byName)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not what gpu-gang.yaml says (-want,+got):\n%s", diff)
	}
	find(t, objects, "CustomResourceDefinition", "podgroups.scheduling.x-k8s.io")
}

// berth-scheduler starts with the profile of every combination, and every feature is in it.
func TestProfilesOfAllCombinations(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "4", "")
	plugins := map[string]string{"labelPresence": "LabelPresence", "tenancy": "LabelPresence", "gpu": "GPUDevice", "colocation": "Colocation"}
	for _, set := range combinations() {
		t.Run(nameOf(set), func(t *testing.T) {
			t.Parallel()
			objects := h.render(t, "x", "ns", features(set...))
			got := load(t, "chart", profile(t, objects, "x"))
			if gates := strings.Contains(asJSON(t, *find(t, objects, "Deployment", "x")), "--feature-gates=GenericWorkload=true\""); gates != slices.Contains(set, "gang") {
				t.Errorf("the feature gate of gangs is set: %t", gates)
			}
			wantName := "x"
			if slices.Contains(set, "tenancy") {
				wantName = "x" + names.TenancySuffix
			}
			if diff := cmp.Diff([]string{wantName}, got.Names()); diff != "" {
				t.Fatalf("schedulerNames (-want,+got):\n%s", diff)
			}
			running := got.Effective[wantName].MultiPoint.Enabled
			running = append(running, got.Effective[wantName].Filter.Enabled...)
			running = append(running, got.Effective[wantName].Score.Enabled...)
			for feature, plugin := range plugins {
				on := slices.ContainsFunc(running, func(p schedconfig.Plugin) bool { return p.Name == plugin })
				want := slices.ContainsFunc(set, func(f string) bool { return plugins[f] == plugin })
				if on != want {
					t.Errorf("%s runs: %t, want %t for %s", plugin, on, want, feature)
				}
			}
			if le := got.Config.LeaderElection; le.ResourceNamespace != "ns" || le.ResourceName != "x" {
				t.Errorf("the lease is %s/%s, want ns/x", le.ResourceNamespace, le.ResourceName)
			}
		})
	}
}

func load(tb testing.TB, source, content string) *settings.Profile {
	tb.Helper()
	p, err := settings.Load(tb.Context(), source, []byte(content), nil)
	if err != nil {
		tb.Fatal(fmt.Errorf("%w\n%s", err, content))
	}
	for i := range p.Config.Profiles {
		slices.SortFunc(p.Config.Profiles[i].PluginConfig, func(a, b schedconfig.PluginConfig) int { return strings.Compare(a.Name, b.Name) })
	}
	return p
}

// without returns a profile that does not mention an extension point.
func without(tb testing.TB, text, point string) string {
	tb.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		tb.Fatal(err)
	}
	plugins := object["profiles"].([]any)[0].(map[string]any)["plugins"].(map[string]any)
	if plugins[point] == nil {
		tb.Fatalf("the profile says nothing of %s", point)
	}
	delete(plugins, point)
	content, err := yaml.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	return string(content)
}
