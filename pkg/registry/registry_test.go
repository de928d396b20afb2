// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/plugins/example"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
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
			for _, missing := range missingOf(plugin) {
				t.Error(missing)
			}
			if dir := pluginDir(plugin); !strings.Contains(readme, dir) {
				t.Errorf("README.md does not point at %s", dir)
			}
			enabled := false
			for _, file := range profileFiles(t) {
				_, frameworks := load(t, file)
				enabled = enabled || Runs(frameworks, plugin.Name)
			}
			if !enabled {
				t.Errorf("no profile in config/ enables it")
			}
		})
	}
}

// TestConformanceSaysWhatIsMissing: an entry that somebody has begun is told what it
// lacks, and the smallest plugin lacks nothing.
func TestConformanceSaysWhatIsMissing(t *testing.T) {
	tests := []struct {
		name   string
		plugin Plugin
		want   []string
	}{
		{name: "the smallest plugin", plugin: Plugin{Name: example.Name, New: example.New, prototype: (*example.Example)(nil)}},
		{
			name:   "a name alone",
			plugin: Plugin{Name: "Begun"},
			want: []string{
				"its entry in pkg/registry has no New",
				"its entry in pkg/registry has no prototype",
				"pkg/plugins/begun/README.md: no such file or directory",
			},
		},
		{
			name:   "arguments that are not validated",
			plugin: Plugin{Name: labelpresence.Name, New: labelpresence.New, prototype: (*labelpresence.LabelPresence)(nil)},
			want:   []string{"its entry in pkg/registry has no ValidateArgs, and the kind LabelPresenceArgs is registered"},
		},
		{
			name: "arguments of no kind, another name, and Filter alone",
			plugin: Plugin{
				Name: "Example", New: example.New, prototype: filterAlone{},
				ValidateArgs: typed(validation.ValidateLabelPresenceArgs),
			},
			want: []string{
				`the plugin calls itself "FilterAlone"`,
				"it rejects pods but has no EventsToRegister, which says which events cure the rejection: every event would wake them",
				"it has no SignPod, which switches batching off for the whole profile",
				"kubescheduler.config.k8s.io/__internal, Kind=ExampleArgs is not in the scheme that decodes configurations",
				"kubescheduler.config.k8s.io/__internal, Kind=ExampleArgs is not in the scheme that defaults and converts arguments",
				"kubescheduler.config.k8s.io/v1, Kind=ExampleArgs is not in the scheme that decodes configurations",
				"kubescheduler.config.k8s.io/v1, Kind=ExampleArgs is not in the scheme that defaults and converts arguments",
				"pkg/plugins/example/README.md has no example with ExampleArgs",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, missingOf(tt.plugin)); diff != "" {
				t.Errorf("missing (-want,+got):\n%s", diff)
			}
		})
	}
}

// filterAlone is a plugin that only filters.
type filterAlone struct{ fwk.FilterPlugin }

func (filterAlone) Name() string { return "FilterAlone" }

// missingOf returns what the plugin and its entry lack, each with what it is for.
func missingOf(plugin Plugin) []string {
	var missing []string
	want := func(ok bool, format string, args ...any) {
		if !ok {
			missing = append(missing, fmt.Sprintf(format, args...))
		}
	}
	want(plugin.New != nil, "its entry in pkg/registry has no New")
	want(plugin.prototype != nil, "its entry in pkg/registry has no prototype")
	if plugin.prototype != nil {
		want(plugin.prototype.Name() == plugin.Name, "the plugin calls itself %q", plugin.prototype.Name())
		filters := implements[fwk.FilterPlugin](plugin.prototype)
		prefilters := implements[fwk.PreFilterPlugin](plugin.prototype)
		scores := implements[fwk.ScorePlugin](plugin.prototype)
		want(!filters && !prefilters || implements[fwk.EnqueueExtensions](plugin.prototype),
			"it rejects pods but has no EventsToRegister, which says which events cure the rejection: every event would wake them")
		want(!filters && !scores || implements[fwk.SignPlugin](plugin.prototype), "it has no SignPod, which switches batching off for the whole profile")
	}

	kind := plugin.Name + "Args"
	if plugin.ValidateArgs == nil {
		want(!schedscheme.Scheme.Recognizes(argsKind(kind, "v1")), "its entry in pkg/registry has no ValidateArgs, and the kind %s is registered", kind)
	} else {
		for _, version := range []string{runtime.APIVersionInternal, "v1"} {
			gvk := argsKind(kind, version)
			want(schedscheme.Scheme.Recognizes(gvk), "%s is not in the scheme that decodes configurations", gvk)
			want(schedconfigv1.GetPluginArgConversionScheme().Recognizes(gvk), "%s is not in the scheme that defaults and converts arguments", gvk)
		}
	}

	file := pluginDir(plugin) + "/README.md"
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		want(false, "%s: %v", file, errors.Unwrap(err))
		return missing
	}
	if plugin.ValidateArgs != nil {
		want(strings.Contains(string(content), kind), "%s has no example with %s", file, kind)
	}
	return missing
}

func argsKind(kind, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: schedconfig.GroupName, Version: version, Kind: kind}
}

func pluginDir(plugin Plugin) string {
	return "pkg/plugins/" + strings.ToLower(plugin.Name)
}

// TestPluginWithoutArgs: arguments of a plugin that takes none are refused, and no
// arguments are not.
func TestPluginWithoutArgs(t *testing.T) {
	path := field.NewPath("args")
	plugin := Plugin{Name: example.Name}
	if err := plugin.validateArgs(path, nil); err != nil {
		t.Error(err)
	}
	if err := plugin.validateArgs(path, &schedconfig.NodeAffinityArgs{}); err == nil || !strings.Contains(err.Error(), "args: Forbidden: Example takes no arguments") {
		t.Errorf("arguments for a plugin that takes none: %v", err)
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
	logger, _ := ktesting.NewTestContext(t)
	config, err := options.LoadConfigFromFile(logger, file)
	if err != nil {
		t.Fatal(err)
	}
	effective := map[string]*schedconfig.Plugins{}
	for name, fw := range newScheduler(t, config).Profiles {
		effective[name] = fw.ListPlugins()
	}
	return config, effective
}

// newScheduler returns a scheduler that is not started.
func newScheduler(t *testing.T, config *schedconfig.KubeSchedulerConfiguration) *scheduler.Scheduler {
	t.Helper()
	metrics.Register()
	_, ctx := ktesting.NewTestContext(t)
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
	return sched
}

// profileFiles returns the shipped profiles that this minor release of Kubernetes can run.
func profileFiles(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(profilesDir + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var profiles []string
	for _, file := range all {
		content := read(t, file)
		if strings.Contains(content, "kind: KubeSchedulerConfiguration") && (compat.Release == "1.36" || !strings.Contains(content, GangPlugin)) {
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
