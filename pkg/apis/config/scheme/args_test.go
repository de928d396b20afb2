// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/utils/ptr"
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

func TestDecodeArgs(t *testing.T) {
	tests := []struct {
		name, plugin, args string
		want               runtime.Object
	}{
		{
			name: "defaults without pluginConfig", plugin: "LabelPresence",
			want: &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt},
		},
		{
			name: "every field", plugin: "LabelPresence",
			args: `
      rules:
      - labels: [selectable, example.com/a]
        presence: false
        podSelector:
          matchLabels: {app: web}
        namespaceSelector:
          matchExpressions:
          - {key: team, operator: Exists}
      preferences:
      - {label: ssd, presence: true, weight: 7}
      tenancy:
        nodeLabelKey: example.com/node-tenant
        allowUnrestrictedNodeLabelKey: true
        nodeTaintKey: example.com/taint
        namespaceLabelKey: example.com/tenant
        tenants: Free
        exemptNamespaces: []
        allowNoLeaderElection: true
      daemonSets: Enforce`,
			want: &config.LabelPresenceArgs{
				Rules: []config.LabelPresenceRule{{
					Labels:      []string{"selectable", "example.com/a"},
					Presence:    ptr.To(false),
					PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
					NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "team", Operator: metav1.LabelSelectorOpExists},
					}},
				}},
				Preferences: []config.LabelPresencePreference{{Label: "ssd", Presence: ptr.To(true), Weight: 7}},
				Tenancy: &config.LabelPresenceTenancy{
					NodeLabelKey: "example.com/node-tenant", NodeTaintKey: "example.com/taint", NamespaceLabelKey: "example.com/tenant",
					AllowUnrestrictedNodeLabelKey: true, AllowNoLeaderElection: true,
					Tenants: config.TenantsFree, ExemptNamespaces: []string{},
				},
				DaemonSets: config.DaemonSetsEnforce,
			},
		},
		{
			name: "a forgotten presence stays forgotten, and tenancy gets its defaults", plugin: "LabelPresence",
			args: `
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LabelPresenceArgs
      rules:
      - labels: [selectable]
      tenancy: {nodeLabelKey: a, nodeTaintKey: c, namespaceLabelKey: b}`,
			want: &config.LabelPresenceArgs{
				Rules: []config.LabelPresenceRule{{Labels: []string{"selectable"}}},
				Tenancy: &config.LabelPresenceTenancy{
					NodeLabelKey: "a", NodeTaintKey: "c", NamespaceLabelKey: "b",
					Tenants: config.TenantsConfined, ExemptNamespaces: []string{"kube-system"},
				},
				DaemonSets: config.DaemonSetsExempt,
			},
		},
		{
			name: "defaults without pluginConfig", plugin: "Colocation",
			want: &config.ColocationArgs{
				TopologyKeys: []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"},
			},
		},
		{
			name: "every field", plugin: "Colocation",
			args: `
      topologyKeys: [example.com/rack]
      nodeSearch: Sampled
      rules:
      - podSelector: {matchLabels: {app: web}}
        namespaceSelector: {matchLabels: {team: x}}
        services: [{name: backend, weight: 3}, {name: shop/cache}]
        topologyKeys: [topology.kubernetes.io/zone]
        requiredTopologyKey: topology.kubernetes.io/region
        weight: 7
      - services: [{name: db, weight: 0}]`,
			want: &config.ColocationArgs{
				TopologyKeys: []string{"example.com/rack"}, NodeSearch: "Sampled",
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
		{
			name: "defaults without pluginConfig", plugin: "GPUDevice",
			want: &config.GPUDeviceArgs{
				DeviceResources: []string{"nvidia.com/gpu"},
				NodeLabels: config.GPUDeviceNodeLabels{
					Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
					Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
				},
				ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceFragmentationGradient},
				NonGPUPods:      config.NonGPUPodsAvoid,
			},
		},
		{
			name: "every field", plugin: "GPUDevice",
			args: `
      deviceResources: [amd.com/gpu]
      pool: batch
      nodeLabels: {count: a, memory: b, product: c, replicas: d, migPrefix: e-}
      scoringStrategy: {type: BestFit}
      expectedWorkload:
      - {weight: 3, cpu: 1500m, gpuMilli: 500, gpuMemory: 10Gi, gpuModel: A*, gpuMinMemory: 40Gi}
      nonGPUPods: Forbid`,
			want: &config.GPUDeviceArgs{
				DeviceResources: []string{"amd.com/gpu"},
				Pool:            "batch",
				NodeLabels:      config.GPUDeviceNodeLabels{Count: "a", Memory: "b", Product: "c", Replicas: "d", MIGPrefix: "e-"},
				ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceBestFit},
				ExpectedWorkload: []config.GPUDeviceWorkloadClass{{
					Weight: 3, CPU: resource.MustParse("1500m"), GPUMilli: 500, GPUMemory: resource.MustParse("10Gi"),
					GPUModel: "A*", GPUMinMemory: resource.MustParse("40Gi"),
				}},
				NonGPUPods: config.NonGPUPodsForbid,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.plugin+"/"+tt.name, func(t *testing.T) {
			got, err := decodeArgs(tt.plugin, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected args (-want,+got):\n%s", diff)
			}
		})
	}
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

// TestRoundTrip: what is written out, for example on /configz, means the same when it is
// read again.
func TestRoundTrip(t *testing.T) {
	tests := []struct {
		name, kind string
		args       runtime.Object
	}{
		{
			"every field", "LabelPresenceArgs",
			&configv1.LabelPresenceArgs{
				Rules: []configv1.LabelPresenceRule{{
					Labels:            []string{"a", "b"},
					Presence:          ptr.To(false),
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
					NamespaceSelector: &metav1.LabelSelector{},
				}},
				Preferences: []configv1.LabelPresencePreference{{Label: "c", Presence: ptr.To(true), Weight: 3}},
				Tenancy: &configv1.LabelPresenceTenancy{
					NodeLabelKey: "d", NodeTaintKey: "g", NamespaceLabelKey: "e",
					AllowUnrestrictedNodeLabelKey: true, AllowNoLeaderElection: true,
					Tenants: configv1.TenantsFree, ExemptNamespaces: []string{"f"},
				},
				DaemonSets: configv1.DaemonSetsEnforce,
			},
		},
		{
			"no namespace is exempt", "LabelPresenceArgs",
			&configv1.LabelPresenceArgs{
				Tenancy: &configv1.LabelPresenceTenancy{
					NodeLabelKey: "d", NamespaceLabelKey: "e",
					Tenants: configv1.TenantsConfined, ExemptNamespaces: []string{},
				},
				DaemonSets: configv1.DaemonSetsExempt,
			},
		},
		{
			"every field", "ColocationArgs",
			&configv1.ColocationArgs{
				TopologyKeys: []string{"example.com/rack"}, NodeSearch: "Sampled",
				Rules: []configv1.ColocationRule{
					{
						PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, NamespaceSelector: &metav1.LabelSelector{},
						Services:     []configv1.ColocationService{{Name: "shop/backend", Weight: ptr.To[int32](3)}},
						TopologyKeys: []string{"a"}, RequiredTopologyKey: "b", Weight: ptr.To[int32](2),
					},
					{Weight: ptr.To[int32](1)},
				},
			},
		},
		{
			"every field", "GPUDeviceArgs",
			&configv1.GPUDeviceArgs{
				DeviceResources: []string{}, // none, and not the default
				NodeLabels:      configv1.GPUDeviceNodeLabels{Count: "a", Memory: "b", Product: "c", Replicas: "d", MIGPrefix: "e-"},
				ScoringStrategy: configv1.GPUDeviceScoringStrategy{Type: configv1.GPUDeviceFragmentationGradient},
				ExpectedWorkload: []configv1.GPUDeviceWorkloadClass{
					{Weight: 3, CPU: resource.MustParse("1500m"), GPUMemory: resource.MustParse("10Gi")},
					{Weight: 1, GPUMilli: 8000, GPUModel: "A*", GPUMinMemory: resource.MustParse("40Gi")},
				},
				NonGPUPods: configv1.NonGPUPodsAllow,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			tt.args.GetObjectKind().SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(tt.kind))
			written, err := yaml.Marshal(tt.args)
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			internal, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(written, nil, nil)
			if err != nil {
				t.Fatalf("decoding %s: %v", written, err)
			}
			if kinds, _, err := schedulerscheme.Scheme.ObjectKinds(internal); err != nil || kinds[0] != config.SchemeGroupVersion.WithKind(tt.kind) {
				t.Fatalf("want the internal type, got %T (%v)", internal, err)
			}
			got, err := schedulerscheme.Scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion)
			if err != nil {
				t.Fatalf("converting back: %v", err)
			}
			if diff := cmp.Diff(tt.args, got); diff != "" {
				t.Errorf("Unexpected args after a round trip through\n%s(-want,+got):\n%s", written, diff)
			}
		})
	}
}
