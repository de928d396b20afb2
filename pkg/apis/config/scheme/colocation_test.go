// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	configv1 "github.com/berth-scheduler/berth/pkg/apis/config/v1"
)

// colocationProfileHeader enables the plugin; its arguments may follow.
const colocationProfileHeader = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins:
    multiPoint: {enabled: [{name: Colocation}]}
`

func TestDecodeColocationArgs(t *testing.T) {
	levels := []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
	tests := []struct {
		name string
		text string
		want *config.ColocationArgs
	}{
		{
			name: "defaults without pluginConfig", text: colocationProfileHeader,
			want: &config.ColocationArgs{TopologyKeys: levels, NodeSearch: config.SearchPeersFirst},
		},
		{
			name: "every field",
			text: colocationProfileHeader + `
  pluginConfig:
  - name: Colocation
    args:
      topologyKeys: [example.com/rack]
      nodeSearch: Sampled
      rules:
      - podSelector: {matchLabels: {app: web}}
        namespaceSelector: {matchLabels: {team: x}}
        services: [{name: backend, weight: 3}, {name: shop/cache}]
        topologyKeys: [topology.kubernetes.io/zone]
        requiredTopologyKey: topology.kubernetes.io/region
        weight: 7
      - services: [{name: db, weight: 0}]
`,
			want: &config.ColocationArgs{
				TopologyKeys: []string{"example.com/rack"}, NodeSearch: config.SearchSampled,
				Rules: []config.ColocationRule{
					{
						PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
						NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}},
						Services:          []config.ColocationService{{Name: "backend", Weight: 3}, {Name: "shop/cache", Weight: 1}},
						TopologyKeys:      []string{"topology.kubernetes.io/zone"}, RequiredTopologyKey: "topology.kubernetes.io/region",
						Weight: 7,
					},
					// A weight of 0 is wrong and not missing: validation has to see it.
					{Services: []config.ColocationService{{Name: "db"}}, Weight: 1},
				},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := decode(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			for _, plugin := range cfg.Profiles[0].PluginConfig {
				if plugin.Name != "Colocation" {
					continue
				}
				if diff := cmp.Diff(runtime.Object(tt.want), plugin.Args); diff != "" {
					t.Errorf("Unexpected args (-want,+got):\n%s", diff)
				}
				return
			}
			t.Error("the profile has no args for Colocation")
		})
	}
}

func TestDecodeColocationArgsIsStrict(t *testing.T) {
	for args, want := range map[string]string{
		`{rules: [{service: [a]}]}`:                       `unknown field "rules[0].service"`,
		`{rules: [{services: [backend]}]}`:                "services",
		`{rules: [{services: [{name: a, weigth: 1}]}]}`:   `unknown field "rules[0].services[0].weigth"`,
		`{topologykeys: [a]}`:                             `unknown field "topologykeys"`,
		`{rules: [{services: [{name: a, weight: "1"}]}]}`: "weight",
	} {
		_, err := decode(colocationProfileHeader + "  pluginConfig:\n  - name: Colocation\n    args: " + args + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in the error, got: %v", args, want, err)
		}
	}
}

// What is written out, for example on /configz, means the same when it is read
// again.
func TestColocationArgsRoundTrip(t *testing.T) {
	args := &configv1.ColocationArgs{
		TopologyKeys: []string{"example.com/rack"}, NodeSearch: configv1.SearchSampled,
		Rules: []configv1.ColocationRule{
			{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, NamespaceSelector: &metav1.LabelSelector{},
				Services:     []configv1.ColocationService{{Name: "shop/backend", Weight: ptr.To[int32](3)}},
				TopologyKeys: []string{"a"}, RequiredTopologyKey: "b", Weight: ptr.To[int32](2),
			},
			{Weight: ptr.To[int32](1)},
		},
	}
	args.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("ColocationArgs"))
	written, err := yaml.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	internal, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(written, nil, nil)
	if err != nil {
		t.Fatalf("decoding %s: %v", written, err)
	}
	got, err := schedulerscheme.Scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runtime.Object(args), got); diff != "" {
		t.Errorf("Unexpected args after a round trip through\n%s(-want,+got):\n%s", written, diff)
	}
}
