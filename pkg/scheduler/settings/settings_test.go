// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// field is a setting that a file and a flag have, with a value that a profile needs and
// another one.
type field struct {
	flag string
	// path is the field's in the file, below leaderElection.
	path string
	// profile is a file of config/berth-scheduler in which the field has another value.
	profile string
	value   any
	// wantErr is what is refused then; empty if it is accepted.
	wantErr string
}

// fields are all that a flag overrides. TestFieldsOfFlags finds one that is missing here.
var fields = []field{
	{"leader-elect", "leaderElect", "default-scheduler.yaml", false, "profiles[0].schedulerName: Invalid value: \"default-scheduler\": the cluster's own scheduler serves this name"},
	{"leader-elect", "leaderElect", "tenancy.yaml", false, "leaderElection.leaderElect: Invalid value: false: profiles[0] (\"berth-tenancy\") has tenancy"},
	{"leader-elect", "leaderElect", "gpu.yaml", false, ""},
	{"leader-elect-resource-name", "resourceName", "default-scheduler.yaml", "another", "profiles[0].schedulerName: Invalid value: \"default-scheduler\""},
	{"leader-elect-resource-name", "resourceName", "gpu.yaml", "another", ""},
	{"leader-elect-resource-namespace", "resourceNamespace", "default-scheduler.yaml", "another", "profiles[0].schedulerName: Invalid value: \"default-scheduler\""},
	{"leader-elect-resource-namespace", "resourceNamespace", "gpu.yaml", "another", ""},
	{"leader-elect-resource-lock", "resourceLock", "gpu.yaml", "endpoints", "resourceLock"},
	{"leader-elect-lease-duration", "leaseDuration", "gpu.yaml", "1s", "leaseDuration"},
	{"leader-elect-renew-deadline", "renewDeadline", "gpu.yaml", "1m0s", "leaseDuration"},
	{"leader-elect-retry-period", "retryPeriod", "gpu.yaml", "1m0s", "renewDeadline"},
}

// fileWith returns a shipped file in which a field of leaderElection has the value.
func fileWith(t *testing.T, profile, path string, value any) []byte {
	t.Helper()
	content, err := os.ReadFile("../../../config/berth-scheduler/" + profile)
	if err != nil || path == "" {
		return content
	}
	var file map[string]any
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	election, ok := file["leaderElection"].(map[string]any)
	if !ok {
		t.Fatalf("%s has no leaderElection", profile)
	}
	election[path] = value
	if content, err = yaml.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return content
}

// quiet is a context without a log.
func quiet(t *testing.T) context.Context {
	t.Helper()
	return klog.NewContext(t.Context(), logr.Discard())
}

// outcome is what a scheduler runs with, or why it does not start.
type outcome struct {
	Config *schedconfig.KubeSchedulerConfiguration
	Err    string
}

func load(t *testing.T, content []byte, args ...string) outcome {
	t.Helper()
	flags, err := settings.Parse(args)
	if err != nil {
		return outcome{Err: err.Error()}
	}
	profile, err := settings.Load(quiet(t), "FILE", content, flags)
	if err != nil {
		return outcome{Err: strings.TrimPrefix(err.Error(), flags.Source("FILE")+": ")}
	}
	return outcome{Config: profile.Config}
}

// TestFlagFileAndBoth: a setting is one state, whichever way it is reached, so that whatever
// is checked of it, today or later, is checked of the flag as well.
func TestFlagFileAndBoth(t *testing.T) {
	for _, f := range fields {
		t.Run(fmt.Sprintf("%s=%v of %s", f.flag, f.value, f.profile), func(t *testing.T) {
			before := load(t, fileWith(t, f.profile, "", nil))
			if before.Err != "" {
				t.Fatalf("the file as it is shipped: %s", before.Err)
			}
			flag := fmt.Sprintf("--%s=%v", f.flag, f.value)
			byFile := load(t, fileWith(t, f.profile, f.path, f.value))
			for name, got := range map[string]outcome{
				"flag":                 load(t, fileWith(t, f.profile, "", nil), flag),
				"both":                 load(t, fileWith(t, f.profile, f.path, f.value), flag),
				"flag with underscore": load(t, fileWith(t, f.profile, "", nil), strings.ReplaceAll(flag, "r-elect", "r_elect")),
			} {
				if diff := cmp.Diff(byFile, got); diff != "" {
					t.Errorf("%s (-by file,+got):\n%s", name, diff)
				}
			}
			if (byFile.Err != "") != (f.wantErr != "") || !strings.Contains(byFile.Err, f.wantErr) {
				t.Errorf("the error is %q, want one with %q", byFile.Err, f.wantErr)
			}
			if cmp.Diff(before, byFile) == "" {
				t.Error("the value is the one of the file already")
			}
		})
	}
}

// TestFieldsOfFlags walks all flags, and finds those that change what a file says: each must
// be among the fields above.
func TestFieldsOfFlags(t *testing.T) {
	content := fileWith(t, "gpu.yaml", "", nil)
	flags, err := settings.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := flags.Load("FILE", content)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	tried := 0
	for _, set := range flags.Options.Flags.FlagSets {
		set.VisitAll(func(flag *pflag.Flag) {
			value, known := map[string]string{"bool": strconv.FormatBool(flag.DefValue != "true"), "int": "3", "int32": "3", "float32": "3", "duration": "3s"}[flag.Value.Type()]
			if !known {
				value = "another"
			}
			changed, err := settings.Parse([]string{"--" + flag.Name + "=" + value})
			if changed == nil {
				return // such a value cannot be given: not a setting of a file
			}
			tried++
			config, loadErr := changed.Load("FILE", content)
			if err == nil && (loadErr != nil || cmp.Diff(shipped, config) != "") {
				found[flag.Name] = true
			}
		})
	}
	known := map[string]bool{}
	for _, f := range fields {
		known[f.flag] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(found))); diff != "" || tried < 40 {
		t.Errorf("after %d values, the flags that override a file (-in the table,+found):\n%s", tried, diff)
	}
}

// TestGatesByFlag: the gates of a command line decide which plugins its profiles run, and
// those of this process are as before.
func TestGatesByFlag(t *testing.T) {
	ctx := quiet(t)
	content := fileWith(t, "labelpresence.yaml", "", nil)
	runs := func(args ...string) (gang, enabled bool) {
		t.Helper()
		flags, err := settings.Parse(args)
		if err != nil {
			t.Fatal(err)
		}
		profile, err := settings.Load(ctx, "FILE", content, flags)
		if err != nil {
			t.Fatal(err)
		}
		for _, plugins := range profile.Effective {
			gang = gang || slices.ContainsFunc(plugins.Permit.Enabled, func(p schedconfig.Plugin) bool { return p.Name == "GangScheduling" })
		}
		return gang, flags.Enabled(features.GenericWorkload)
	}
	all := func() map[featuregate.Feature]bool {
		gates := map[featuregate.Feature]bool{}
		for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
			gates[name] = utilfeature.DefaultFeatureGate.Enabled(name)
		}
		return gates
	}
	before := all()
	for _, on := range []bool{true, false, true} {
		gates := gang(on)
		if running, enabled := runs(gates); running != on || enabled != on {
			t.Errorf("%s: GangScheduling runs: %t, the gate is on: %t", gates, running, enabled)
		}
		if diff := cmp.Diff(before, all()); diff != "" {
			t.Errorf("%s: the gates of this process (-before,+after):\n%s", gates, diff)
		}
	}
}

// gang is the flag that turns gang scheduling on or off.
func gang(on bool) string {
	gates := fmt.Sprintf("--feature-gates=GenericWorkload=%t", on)
	if compat.Release == "1.36" {
		gates += fmt.Sprintf(",GangScheduling=%t", on)
	}
	return gates
}

// TestDoAtOneTime: of two command lines that are asked at one time each has its own gates, and
// those of this process are as before.
func TestDoAtOneTime(t *testing.T) {
	enabled := func() bool { return utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) }
	before := enabled()
	var group sync.WaitGroup
	for _, on := range []bool{true, false} {
		flags, err := settings.Parse([]string{gang(on)})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for range 200 {
				err := flags.Do(func() error {
					first := enabled()
					runtime.Gosched()
					if second := enabled(); first != on || second != on {
						return fmt.Errorf("the gate is %t, then %t", first, second)
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s: %v", gang(on), err)
					return
				}
			}
		})
	}
	group.Wait()
	if after := enabled(); after != before {
		t.Errorf("the gate of this process was %t and is %t", before, after)
	}
}

// TestParse: what keeps a process from starting is an error.
func TestParse(t *testing.T) {
	for _, tt := range []struct{ argument, wantErr string }{
		{"--config=x", ""},
		{"--v=4", ""},
		{"--logging-format=json", ""},
		{"--vmodule=x=4", ""},
		{"--leader-elect", ""},
		{"--secure-port=0", ""},
		{"--" + settings.SoleFlag, ""},
		{"--leader-election=false", "unknown flag: --leader-election"},
		{"--leader-elect=maybe", `invalid argument "maybe" for "--leader-elect" flag`},
		{"--secure-port=70000", "70000"},
		{"--logging-format=xml", "Unsupported log format"},
		{"--feature-gates=Nothing=true", "unrecognized feature gate: Nothing"},
		{"--feature-gates=kube:Nothing=true", "unrecognized feature gate: Nothing"},
		{"profile.yaml", `unknown argument "profile.yaml"`},
	} {
		_, err := settings.Parse([]string{tt.argument})
		if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
			t.Errorf("%s: error %v, want one with %q", tt.argument, err, tt.wantErr)
		}
	}
}
