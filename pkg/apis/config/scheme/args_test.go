// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	configv1 "github.com/berth-scheduler/berth/pkg/apis/config/v1"
)

// decodeArgs loads, as kube-scheduler does, a KubeSchedulerConfiguration with one profile
// that enables the plugin, and returns the plugin's arguments. args is their YAML in
// flow style; without any there is no pluginConfig.
func decodeArgs(plugin, args string) (runtime.Object, error) {
	text := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins:
    multiPoint: {enabled: [{name: ` + plugin + "}]}\n"
	if args != "" {
		text += "  pluginConfig:\n  - name: " + plugin + "\n    args: " + args + "\n"
	}
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	configs := obj.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0].PluginConfig
	i := slices.IndexFunc(configs, func(c schedulerconfig.PluginConfig) bool { return c.Name == plugin })
	if i < 0 {
		return nil, nil
	}
	return configs[i].Args, nil
}

// TestDecodeArgs: args are decoded, defaulted and written out, for example on /configz, as
// testdata/args.yaml has it, and what is written out decodes to the same.
func TestDecodeArgs(t *testing.T) {
	content, err := os.ReadFile("testdata/args.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		Name, Plugin string
		Args         json.RawMessage
		Want         map[string]any
	}
	if err := yaml.UnmarshalStrict(content, &tests); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.Plugin+"/"+tt.Name, func(t *testing.T) {
			tt.Want["apiVersion"], tt.Want["kind"] = configv1.SchemeGroupVersion.String(), tt.Plugin+"Args"
			internal, written := writtenOut(t, tt.Plugin, string(tt.Args))
			if kinds, _, err := schedulerscheme.Scheme.ObjectKinds(internal); err != nil || kinds[0] != config.SchemeGroupVersion.WithKind(tt.Plugin+"Args") {
				t.Fatalf("want the internal type, got %T (%v)", internal, err)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(written), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.Want, got); diff != "" {
				t.Errorf("Unexpected args (-want,+got):\n%s", diff)
			}
			again, _ := writtenOut(t, tt.Plugin, written)
			if diff := cmp.Diff(internal, again); diff != "" {
				t.Errorf("Unexpected args after a round trip through\n%s(-want,+got):\n%s", written, diff)
			}
		})
	}
}

// writtenOut returns decoded args, and those as JSON of their version.
func writtenOut(t *testing.T, plugin, args string) (internal runtime.Object, written string) {
	t.Helper()
	internal, err := decodeArgs(plugin, args)
	if err != nil {
		t.Fatal(err)
	}
	versioned, err := schedulerscheme.Scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion)
	if err != nil {
		t.Fatalf("converting back: %v", err)
	}
	content, err := json.Marshal(versioned)
	if err != nil {
		t.Fatal(err)
	}
	return internal, string(content)
}

func TestDecodeIsStrict(t *testing.T) {
	tests := []struct {
		name, plugin, args string
		// want are parts of the message: what is wrong, and the plugin.
		want []string
	}{
		{"unknown field", "LabelPresence", `{ruels: []}`, []string{`unknown field "ruels"`, "LabelPresence"}},
		{"unknown field inside", "LabelPresence", `{rules: [{label: a, presence: true}]}`, []string{`unknown field "rules[0].label"`}},
		{"field twice", "LabelPresence", "\n        daemonSets: Exempt\n        daemonSets: Enforce", []string{"daemonSets", "already set"}},
		{"field in another case", "LabelPresence", `{Rules: []}`, []string{`unknown field "Rules"`}},
		{"wrong type", "LabelPresence", `{rules: [{labels: a, presence: true}]}`, []string{"rules.labels"}},
		{"a string for a bool", "LabelPresence", `{rules: [{labels: [a], presence: "true"}]}`, []string{"rules.presence"}},
		{"wrong kind", "LabelPresence", `{kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}`, []string{"NodeAffinityArgs", "LabelPresenceArgs"}},
		{"unknown version", "LabelPresence", `{kind: LabelPresenceArgs, apiVersion: kubescheduler.config.k8s.io/v1beta3}`, []string{"v1beta3"}},
		{"unknown field of a rule", "Colocation", `{rules: [{service: [a]}]}`, []string{`unknown field "rules[0].service"`}},
		{"wrong type", "Colocation", `{rules: [{services: [backend]}]}`, []string{"services"}},
		{"unknown field of a Service", "Colocation", `{rules: [{services: [{name: a, weigth: 1}]}]}`, []string{`unknown field "rules[0].services[0].weigth"`}},
		{"field in another case", "Colocation", `{topologykeys: [a]}`, []string{`unknown field "topologykeys"`}},
		{"a string for a number", "Colocation", `{rules: [{services: [{name: a, weight: "1"}]}]}`, []string{"weight"}},
		{"unknown field of the strategy", "GPUDevice", `{scoringStrategy: {kind: BestFit}}`, []string{`unknown field "scoringStrategy.kind"`}},
		{"unknown field of the workload", "GPUDevice", `{expectedWorkload: [{weight: 1, milli: 500}]}`, []string{`unknown field "expectedWorkload[0].milli"`}},
		{"no quantity", "GPUDevice", `{expectedWorkload: [{weight: 1, gpuMemory: 10 GB}]}`, []string{"quantities must match"}},
		{"field in another case", "GPUDevice", `{nonGpuPods: Avoid}`, []string{`unknown field "nonGpuPods"`}},
	}
	for _, tt := range tests {
		t.Run(tt.plugin+"/"+tt.name, func(t *testing.T) {
			_, err := decodeArgs(tt.plugin, tt.args)
			if err == nil {
				t.Fatal("want an error, got none")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("want %q in the error, got: %v", part, err)
				}
			}
		})
	}
}
