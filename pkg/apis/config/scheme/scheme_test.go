// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	configv1 "github.com/berth-scheduler/berth/pkg/apis/config/v1"
)

// ourKinds returns every kind that this module registers, read from a scheme
// that holds nothing else.
func ourKinds(t *testing.T) []string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := config.AddToScheme(scheme); err != nil {
		t.Fatalf("AddToScheme: %v", err)
	}
	var kinds []string
	for kind := range scheme.KnownTypes(config.SchemeGroupVersion) {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	if len(kinds) == 0 {
		t.Fatal("no kind is registered")
	}
	return kinds
}

// kube-scheduler needs each kind in both schemes, internal and versioned.
func TestKindsAreInBothSchemes(t *testing.T) {
	schemes := []struct {
		name   string
		scheme *runtime.Scheme
	}{
		{"decoding", schedulerscheme.Scheme},
		{"defaulting and conversion", schedulerv1.GetPluginArgConversionScheme()},
	}
	for _, kind := range ourKinds(t) {
		if !strings.HasSuffix(kind, "Args") {
			t.Errorf("kind %s: kube-scheduler finds a plugin's args only under <plugin name>Args", kind)
		}
		for _, s := range schemes {
			t.Run(kind+"/"+s.name, func(t *testing.T) {
				for _, gv := range []schema.GroupVersion{config.SchemeGroupVersion, configv1.SchemeGroupVersion} {
					if !s.scheme.Recognizes(gv.WithKind(kind)) {
						t.Fatalf("%v is not registered", gv.WithKind(kind))
					}
				}
				versioned, err := s.scheme.New(configv1.SchemeGroupVersion.WithKind(kind))
				if err != nil {
					t.Fatalf("New: %v", err)
				}
				s.scheme.Default(versioned)
				internal, err := s.scheme.ConvertToVersion(versioned, config.SchemeGroupVersion)
				if err != nil {
					t.Fatalf("converting to the internal type: %v", err)
				}
				if _, err := s.scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion); err != nil {
					t.Fatalf("converting back: %v", err)
				}
			})
		}
	}
}

// decode loads a KubeSchedulerConfiguration as kube-scheduler does.
func decode(data string) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode([]byte(data), nil, nil)
	if err != nil {
		return nil, err
	}
	return obj.(*schedulerconfig.KubeSchedulerConfiguration), nil
}

// labelPresenceArgs returns the args of the first profile.
func labelPresenceArgs(t *testing.T, cfg *schedulerconfig.KubeSchedulerConfiguration) runtime.Object {
	t.Helper()
	for _, plugin := range cfg.Profiles[0].PluginConfig {
		if plugin.Name == "LabelPresence" {
			return plugin.Args
		}
	}
	t.Fatal("the profile has no args for LabelPresence")
	return nil
}

const profileHeader = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: LabelPresence
`

func TestDecodeLabelPresenceArgs(t *testing.T) {
	tests := []struct {
		name   string
		config string
		want   *config.LabelPresenceArgs
	}{
		{
			name:   "defaults without pluginConfig",
			config: profileHeader,
			want:   &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt},
		},
		{
			name: "every field",
			config: profileHeader + `
  pluginConfig:
  - name: LabelPresence
    args:
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
      daemonSets: Enforce
`,
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
					NodeLabelKey: "example.com/node-tenant",
					NodeTaintKey: "example.com/taint",

					AllowUnrestrictedNodeLabelKey: true,
					AllowNoLeaderElection:         true,

					NamespaceLabelKey: "example.com/tenant",
					Tenants:           config.TenantsFree,
					ExemptNamespaces:  []string{},
				},
				DaemonSets: config.DaemonSetsEnforce,
			},
		},
		{
			name: "a forgotten presence stays forgotten, and tenancy gets its defaults",
			config: profileHeader + `
  pluginConfig:
  - name: LabelPresence
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LabelPresenceArgs
      rules:
      - labels: [selectable]
      tenancy:
        nodeLabelKey: a
        nodeTaintKey: c
        namespaceLabelKey: b
`,
			want: &config.LabelPresenceArgs{
				Rules: []config.LabelPresenceRule{{Labels: []string{"selectable"}}},
				Tenancy: &config.LabelPresenceTenancy{
					NodeLabelKey:      "a",
					NodeTaintKey:      "c",
					NamespaceLabelKey: "b",
					Tenants:           config.TenantsConfined,
					ExemptNamespaces:  []string{"kube-system"},
				},
				DaemonSets: config.DaemonSetsExempt,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := decode(tt.config)
			if err != nil {
				t.Fatalf("decoding: %v", err)
			}
			if diff := cmp.Diff(runtime.Object(tt.want), labelPresenceArgs(t, cfg)); diff != "" {
				t.Errorf("Unexpected args (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestDecodeIsStrict(t *testing.T) {
	tests := []struct {
		name string
		args string
		// want are parts of the message: what is wrong, and the plugin.
		want []string
	}{
		{name: "unknown field", args: `{ruels: []}`, want: []string{`unknown field "ruels"`, "LabelPresence"}},
		{name: "unknown field inside", args: `{rules: [{label: a, presence: true}]}`, want: []string{`unknown field "rules[0].label"`}},
		{name: "field twice", args: "\n        daemonSets: Exempt\n        daemonSets: Enforce", want: []string{"daemonSets", "already set"}},
		{name: "field in another case", args: `{Rules: []}`, want: []string{`unknown field "Rules"`}},
		{name: "wrong type", args: `{rules: [{labels: a, presence: true}]}`, want: []string{"rules.labels"}},
		{name: "a string for a bool", args: `{rules: [{labels: [a], presence: "true"}]}`, want: []string{"rules.presence"}},
		{name: "wrong kind", args: `{kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}`, want: []string{"NodeAffinityArgs", "LabelPresenceArgs"}},
		{name: "unknown version", args: `{kind: LabelPresenceArgs, apiVersion: kubescheduler.config.k8s.io/v1beta3}`, want: []string{"v1beta3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(profileHeader + "  pluginConfig:\n  - name: LabelPresence\n    args: " + tt.args + "\n")
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

// What is written out, for example on /configz, means the same when it is read
// again.
func TestLabelPresenceArgsRoundTrip(t *testing.T) {
	tests := []struct {
		name string
		args *configv1.LabelPresenceArgs
	}{
		{
			name: "every field",
			args: &configv1.LabelPresenceArgs{
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
			name: "no namespace is exempt",
			args: &configv1.LabelPresenceArgs{
				Tenancy: &configv1.LabelPresenceTenancy{
					NodeLabelKey: "d", NamespaceLabelKey: "e",
					Tenants: configv1.TenantsConfined, ExemptNamespaces: []string{},
				},
				DaemonSets: configv1.DaemonSetsExempt,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.args.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("LabelPresenceArgs"))
			written, err := yaml.Marshal(tt.args)
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			internal, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(written, nil, nil)
			if err != nil {
				t.Fatalf("decoding %s: %v", written, err)
			}
			if _, ok := internal.(*config.LabelPresenceArgs); !ok {
				t.Fatalf("want the internal type, got %T", internal)
			}
			got, err := schedulerscheme.Scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion)
			if err != nil {
				t.Fatalf("converting back: %v", err)
			}
			if diff := cmp.Diff(runtime.Object(tt.args), got); diff != "" {
				t.Errorf("Unexpected args after a round trip through\n%s(-want,+got):\n%s", written, diff)
			}
		})
	}
}
