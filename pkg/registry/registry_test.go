// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/test/utils/ktesting"
)

const (
	root        = "../.."
	profilesDir = root + "/config/berth-scheduler"
)

// TestShippedProfiles loads every profile that we ship as the binary does, and
// builds the real frameworks from it. The client is a fake one because building
// makes no request.
func TestShippedProfiles(t *testing.T) {
	for _, file := range profileFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			config, frameworks := load(t, file)
			if err := ValidateConfiguration(config); err != nil {
				t.Error(err)
			}
			if err := CheckConfiguration(config, frameworks); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestConformance holds every plugin of the registry to what a profile, a user
// and the scheduler's batching expect of it.
func TestConformance(t *testing.T) {
	readme := read(t, root+"/README.md")
	for _, plugin := range Plugins() {
		t.Run(plugin.Name, func(t *testing.T) {
			if got := plugin.prototype.Name(); got != plugin.Name {
				t.Errorf("the plugin calls itself %q", got)
			}

			_, filters := plugin.prototype.(fwk.FilterPlugin)
			_, prefilters := plugin.prototype.(fwk.PreFilterPlugin)
			_, scores := plugin.prototype.(fwk.ScorePlugin)
			if _, ok := plugin.prototype.(fwk.EnqueueExtensions); (filters || prefilters) && !ok {
				t.Error("it rejects pods but does not say which events cure the rejection: every event would wake them")
			}
			if _, ok := plugin.prototype.(fwk.SignPlugin); (filters || scores) && !ok {
				t.Error("it has no SignPod, which switches batching off for the whole profile")
			}

			kind := plugin.Name + "Args"
			internal := schema.GroupVersionKind{Group: schedconfig.GroupName, Version: "__internal", Kind: kind}
			versioned := schema.GroupVersionKind{Group: schedconfig.GroupName, Version: "v1", Kind: kind}
			for _, gvk := range []schema.GroupVersionKind{internal, versioned} {
				if !schedscheme.Scheme.Recognizes(gvk) {
					t.Errorf("%s is not in the scheme that decodes configurations", gvk)
				}
				if !schedconfigv1.GetPluginArgConversionScheme().Recognizes(gvk) {
					t.Errorf("%s is not in the scheme that defaults and converts arguments", gvk)
				}
			}

			dir := "pkg/plugins/" + strings.ToLower(plugin.Name)
			if !strings.Contains(readme, dir) {
				t.Errorf("README.md does not point at %s", dir)
			}
			if own := read(t, filepath.Join(root, dir, "README.md")); !strings.Contains(own, kind) {
				t.Errorf("%s/README.md has no example with %s", dir, kind)
			}
			enabled := false
			for _, file := range profileFiles(t) {
				_, frameworks := load(t, file)
				for _, plugins := range frameworks {
					for _, p := range plugins.Filter.Enabled {
						enabled = enabled || p.Name == plugin.Name
					}
				}
			}
			if !enabled {
				t.Errorf("no profile in config/ enables it")
			}
		})
	}
}

// TestPluginsAreFresh makes sure that a caller who edits the list does not edit
// everybody's.
func TestPluginsAreFresh(t *testing.T) {
	Plugins()[0].Name = "edited"
	if Plugins()[0].Name == "edited" {
		t.Error("Plugins returns a shared slice")
	}
	for name := range New() {
		if name == "" {
			t.Error("a plugin without a name")
		}
	}
}

// load builds the scheduler that file describes and returns, by schedulerName,
// the plugins that each profile runs in the end.
func load(t *testing.T, file string) (*schedconfig.KubeSchedulerConfiguration, map[string]*schedconfig.Plugins) {
	t.Helper()
	metrics.Register()
	logger, ctx := ktesting.NewTestContext(t)
	config, err := options.LoadConfigFromFile(logger, file)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	sched, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
		func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(nil, name) },
		scheduler.WithProfiles(config.Profiles...),
		// Coscheduling makes a client of its own, which asks nothing until it is used.
		scheduler.WithKubeConfig(&rest.Config{}),
		scheduler.WithFrameworkOutOfTreeRegistry(New()))
	if err != nil {
		t.Fatal(err)
	}
	effective := map[string]*schedconfig.Plugins{}
	for name, fw := range sched.Profiles {
		effective[name] = fw.ListPlugins()
	}
	return config, effective
}

func profileFiles(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(profilesDir + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var profiles []string
	for _, file := range all {
		if strings.Contains(read(t, file), "kind: KubeSchedulerConfiguration") {
			profiles = append(profiles, file)
		}
	}
	if len(profiles) == 0 {
		t.Fatalf("no profile in %s", profilesDir)
	}
	return profiles
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
