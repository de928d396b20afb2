// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

// TestAllPluginsIsOneProfile: the profile that manifests/base installs has every plugin,
// that for the static pod is the same, and the demo's adds tenancy.
func TestAllPluginsIsOneProfile(t *testing.T) {
	installed := firstProfile(t, "config/berth-scheduler/all-plugins.yaml")
	for _, want := range []string{labelpresence.Name, gpudevice.Name, colocation.Name} {
		if !slices.ContainsFunc(installed.Plugins.MultiPoint.Enabled, func(p schedconfig.Plugin) bool { return p.Name == want }) {
			t.Errorf("%s is not enabled", want)
		}
	}
	static, demo := firstProfile(t, "config/berth-scheduler/default-scheduler-all.yaml"), firstProfile(t, "hack/demo/berth-scheduler.yaml")
	static.SchedulerName = installed.SchedulerName
	if diff := cmp.Diff(installed, static); diff != "" {
		t.Errorf("default-scheduler-all.yaml (-all-plugins.yaml,+default-scheduler-all.yaml):\n%s", diff)
	}

	for i := range demo.PluginConfig {
		if args, ok := demo.PluginConfig[i].Args.(*config.LabelPresenceArgs); ok {
			args.Tenancy = nil
		}
	}
	if diff := cmp.Diff(argsOf(installed), argsOf(demo)); diff != "" {
		t.Errorf("hack/demo/berth-scheduler.yaml: arguments (-all-plugins.yaml,+demo):\n%s", diff)
	}
	if diff := cmp.Diff(installed.Plugins.MultiPoint.Enabled, demo.Plugins.MultiPoint.Enabled); diff != "" {
		t.Errorf("hack/demo/berth-scheduler.yaml: plugins (-all-plugins.yaml,+demo):\n%s", diff)
	}
}

func firstProfile(t *testing.T, file string) *schedconfig.KubeSchedulerProfile {
	t.Helper()
	path := filepath.Join("..", "..", file)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadConfiguration(path, content)
	if err != nil {
		t.Fatal(err)
	}
	return &loaded.Profiles[0]
}

func argsOf(profile *schedconfig.KubeSchedulerProfile) map[string]runtime.Object {
	args := map[string]runtime.Object{}
	for _, plugin := range profile.PluginConfig {
		args[plugin.Name] = plugin.Args
	}
	return args
}
