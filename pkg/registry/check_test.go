// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

// The wrong files that a user can write are in cmd/berth-scheduler/testdata;
// here is what a file cannot express, and the lease.

func TestCheckLease(t *testing.T) {
	tests := []struct {
		name          string
		elect         bool
		namespace     string
		lease         string
		schedulerName string
		wantError     bool
	}{
		{name: "a lease of its own", elect: true, namespace: "berth-system", lease: "berth-scheduler", schedulerName: "a"},
		{name: "stock's lease", elect: true, namespace: "kube-system", lease: "kube-scheduler", schedulerName: "a", wantError: true},
		{name: "stock's lease in stock's place", elect: true, namespace: "kube-system", lease: "kube-scheduler", schedulerName: "default-scheduler"},
		{name: "stock's lease but no election", namespace: "kube-system", lease: "kube-scheduler", schedulerName: "a"},
		{name: "the name of stock's lease elsewhere", elect: true, namespace: "other", lease: "kube-scheduler", schedulerName: "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &schedconfig.KubeSchedulerConfiguration{Profiles: []schedconfig.KubeSchedulerProfile{{SchedulerName: tt.schedulerName}}}
			cfg.LeaderElection.LeaderElect = tt.elect
			cfg.LeaderElection.ResourceNamespace = tt.namespace
			cfg.LeaderElection.ResourceName = tt.lease
			errs := checkLease(cfg)
			if got := len(errs) > 0; got != tt.wantError {
				t.Errorf("got %v, want an error: %t", errs, tt.wantError)
			}
		})
	}
}

func TestCheckConfigurationNamesEveryProfile(t *testing.T) {
	cfg := &schedconfig.KubeSchedulerConfiguration{Profiles: []schedconfig.KubeSchedulerProfile{
		{SchedulerName: "a", PluginConfig: []schedconfig.PluginConfig{{Name: labelpresence.Name}}},
		{SchedulerName: "b", PluginConfig: []schedconfig.PluginConfig{{Name: labelpresence.Name}}},
		{SchedulerName: "unbuilt"},
	}}
	err := CheckConfiguration(cfg, map[string]*schedconfig.Plugins{"a": {}, "b": {}})
	if err == nil {
		t.Fatal("arguments without effect were accepted")
	}
	for _, want := range []string{"profiles[0].pluginConfig[LabelPresence]", "profiles[1].pluginConfig[LabelPresence]", `profiles[2].schedulerName: Internal error: no framework was built for "unbuilt"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

func TestValidateArgsGathersOverProfiles(t *testing.T) {
	empty := func() schedconfig.KubeSchedulerProfile {
		return schedconfig.KubeSchedulerProfile{PluginConfig: []schedconfig.PluginConfig{{Name: labelpresence.Name, Args: &config.LabelPresenceArgs{}}}}
	}
	err := ValidateArgs(&schedconfig.KubeSchedulerConfiguration{Profiles: []schedconfig.KubeSchedulerProfile{empty(), empty()}})
	if err == nil {
		t.Fatal("empty arguments were accepted")
	}
	for _, want := range []string{"profiles[0].pluginConfig[LabelPresence].args", "profiles[1].pluginConfig[LabelPresence].args"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

func TestValidateArgsOfAnotherType(t *testing.T) {
	for _, plugin := range Plugins() {
		if plugin.ValidateArgs == nil {
			continue // it takes none
		}
		err := plugin.ValidateArgs(field.NewPath("args"), &schedconfig.NodeAffinityArgs{})
		if want := "want config." + plugin.Name + "Args"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error that names the type (%s), got %v", plugin.Name, want, err)
		}
	}
}

// In the shipped profiles one step of GPUDevice's score outweighs all other scores
// together: they decide between nodes that are equal to it, and nothing else. DeviceClaims
// has the same weight, and scores the pods for which GPUDevice's scores are all equal.
func TestGPUDeviceDecides(t *testing.T) {
	for _, file := range profileFiles(t) {
		if !strings.HasPrefix(filepath.Base(file), "gpu") {
			continue
		}
		_, effective := load(t, file)
		for name, plugins := range effective {
			var own, others int64
			for _, plugin := range plugins.Score.Enabled {
				if plugin.Name == gpudevice.Name {
					own = int64(plugin.Weight)
					continue
				}
				if plugin.Name == deviceclaims.Name {
					continue
				}
				others += int64(plugin.Weight) * fwk.MaxScore
			}
			if own <= others {
				t.Errorf("%s, profile %s: a step of GPUDevice weighs %d, and the others up to %d", file, name, own, others)
			}
		}
	}
}

// What is refused stands in cmd/berth-scheduler/testdata/wrong; this is let
// through.
func TestCheckTenancyAccepts(t *testing.T) {
	tenancy := func() *config.LabelPresenceTenancy {
		return &config.LabelPresenceTenancy{
			NodeLabelKey: "node-restriction.kubernetes.io/a", NodeTaintKey: "b", NamespaceLabelKey: "c",
			Tenants: config.TenantsConfined, ExemptNamespaces: []string{"x", "y"},
		}
	}
	reordered, unelected := tenancy(), tenancy()
	reordered.ExemptNamespaces = []string{"y", "x"}
	unelected.AllowNoLeaderElection = true
	profile := func(name string, tenancy *config.LabelPresenceTenancy) schedconfig.KubeSchedulerProfile {
		return schedconfig.KubeSchedulerProfile{SchedulerName: name, PluginConfig: []schedconfig.PluginConfig{
			{Name: labelpresence.Name, Args: &config.LabelPresenceArgs{Tenancy: tenancy}},
		}}
	}
	tests := []struct {
		name     string
		elect    bool
		profiles []schedconfig.KubeSchedulerProfile
	}{
		{name: "no tenancy", profiles: []schedconfig.KubeSchedulerProfile{profile("a", nil), {SchedulerName: "b"}}},
		{name: "the same tenancy twice", elect: true, profiles: []schedconfig.KubeSchedulerProfile{profile("a-tenancy", tenancy()), profile("b", reordered)}},
		{name: "no election, and that is accepted", profiles: []schedconfig.KubeSchedulerProfile{profile("a-tenancy", unelected)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &schedconfig.KubeSchedulerConfiguration{Profiles: tt.profiles}
			cfg.LeaderElection.LeaderElect = tt.elect
			if errs := checkTenancy(cfg); len(errs) > 0 {
				t.Errorf("want no error, got %v", errs)
			}
		})
	}
}

// TestCheckOtherBindersAccepts: extenders that bind no share, and profiles that refuse one.
func TestCheckOtherBindersAccepts(t *testing.T) {
	sharing := &schedconfig.Plugins{}
	sharing.Bind.Enabled = []schedconfig.Plugin{{Name: gpudevice.Name}}
	fits := &schedconfig.Plugins{}
	fits.Filter.Enabled = []schedconfig.Plugin{{Name: "NodeResourcesFit"}}
	tests := []struct {
		name     string
		extender schedconfig.Extender
		profiles map[string]*schedconfig.Plugins
	}{
		{name: "binds, and no profile gives shares", extender: schedconfig.Extender{BindVerb: "bind"}, profiles: map[string]*schedconfig.Plugins{"a": {}}},
		{name: "filters", extender: schedconfig.Extender{FilterVerb: "filter"}, profiles: map[string]*schedconfig.Plugins{"a": sharing}},
		{name: "binds other resources", extender: schedconfig.Extender{BindVerb: "bind", ManagedResources: []schedconfig.ExtenderManagedResource{{Name: "example.com/a"}}}, profiles: map[string]*schedconfig.Plugins{"a": sharing}},
		{name: "filters shares", extender: schedconfig.Extender{FilterVerb: "filter", ManagedResources: []schedconfig.ExtenderManagedResource{{Name: "berth.dev/gpu-milli"}}}, profiles: map[string]*schedconfig.Plugins{"a": sharing}},
		{name: "a profile without shares beside one with", profiles: map[string]*schedconfig.Plugins{"a": sharing, "b": fits}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &schedconfig.KubeSchedulerConfiguration{Extenders: []schedconfig.Extender{tt.extender}}
			for name := range tt.profiles {
				cfg.Profiles = append(cfg.Profiles, schedconfig.KubeSchedulerProfile{SchedulerName: name})
			}
			if errs := checkOtherBinders(cfg, tt.profiles); len(errs) > 0 {
				t.Errorf("want no error, got %v", errs)
			}
		})
	}
}
