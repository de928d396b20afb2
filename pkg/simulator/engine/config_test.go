// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// TestShippedProfiles builds an engine from every profile that is shipped.
func TestShippedProfiles(t *testing.T) {
	var files []string
	for _, folder := range []string{"config/simulator", "config/berth-scheduler"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no profile in %s (%v)", folder, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "kustomization.yaml" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := loadProfile(t, strings.TrimPrefix(file, root))
			node := makeNode("n", 4)
			node.Labels["selectable"] = "" // a rule of some of them
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			e, err := New(t.Context(), Options{Config: c}, makeCluster[runtime.Object](t, node, namespace))
			if name == "gpu-gang.yaml" {
				if err == nil || !strings.Contains(err.Error(), "Coscheduling cannot be simulated") {
					t.Errorf("Unexpected error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pod := makePod("p", "cpu", "1")
			pod.Spec.SchedulerName = c.Profiles[0].SchedulerName
			if r := schedule(t, e, pod); r.Node != "n" {
				t.Errorf("A plain pod is not placed: %s", r.Message)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOneProfileOfSeveral does not build what is not asked for.
func TestOneProfileOfSeveral(t *testing.T) {
	c := loadProfile(t, "config/berth-scheduler/gpu-gang.yaml")
	c.Profiles = append(c.Profiles, loadProfile(t, "config/simulator/fgd.yaml").Profiles...)
	e := newEngine(t, Options{Config: c, SchedulerName: "fgd"}, makeCluster(t, makeNode("n", 4)))
	if r := schedule(t, e, makePod("p")); r.Node != "n" {
		t.Error(r.Message)
	}
}

// TestMissingKinds names what a profile reads and the input has not.
func TestMissingKinds(t *testing.T) {
	c := loadProfile(t, "config/berth-scheduler/tenancy.yaml")
	_, err := New(t.Context(), Options{Config: c}, makeCluster(t, makeNode("n", 4)))
	want := `profile "berth-tenancy": plugin LabelPresence needs namespaces, because tenancy reads a label of the pod's namespace; the input has none: add the output of "kubectl get namespaces -A -o yaml"`
	if err == nil || err.Error() != want {
		t.Errorf("Unexpected error:\n got %v\nwant %s", err, want)
	}
}

// TestConfigurationErrors are refused as by the binary.
func TestConfigurationErrors(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n"
	tests := []struct{ name, content, want string }{
		{"empty", "", "f: want one YAML document, a KubeSchedulerConfiguration, and it holds 0"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", `f: apiVersion: is "v1", must be "kubescheduler.config.k8s.io/v1"`},
		{"an unknown field", head + "profile: []\n", `f: strict decoding error: unknown field "profile"`},
		{"an unknown plugin", head + "profiles:\n- schedulerName: x\n  plugins: {multiPoint: {enabled: [{name: GPU}]}}\n", `f: profiles[0].plugins.multiPoint.enabled: Invalid value: "GPU": no plugin of this name is compiled in`},
		{"out of range", head + "percentageOfNodesToScore: 101\nprofiles:\n- schedulerName: x\n", "f: percentageOfNodesToScore: Invalid value: 101"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := LoadConfiguration("f", []byte(tt.content))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Unexpected error:\n got %v\nwant %s", err, tt.want)
			}
		})
	}

	extended := loadProfile(t, stockProfile)
	extended.Extenders = append(extended.Extenders, schedconfig.Extender{URLPrefix: "http://localhost/"})
	unchecked := loadProfile(t, gpuProfile)
	unchecked.Profiles[0].Plugins.Bind.Enabled = nil
	for want, opts := range map[string]Options{
		"no configuration":                     {},
		"parallelism: -1 must not be negative": {Config: extended, Parallelism: -1},
		`extenders: the first is "http://localhost/": the simulator does not call extenders`: {Config: extended},
		`profiles[0].plugins.bind.enabled: Invalid value: "DefaultBinder"`:                   {Config: unchecked},
	} {
		if _, err := New(t.Context(), opts, makeCluster(t, makeNode("n", 4))); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Unexpected error:\n got %v\nwant %s", err, want)
		}
	}
}

// TestExpectWorkload gives the workload to the strategies that expect one.
func TestExpectWorkload(t *testing.T) {
	given := []config.GPUDeviceWorkloadClass{{Weight: 3, GPUMilli: 500, CPU: resource.MustParse("2")}}
	c := loadProfile(t, gpuProfile)
	expecting, err := ExpectWorkload(c, given)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(gpuArgs(t, expecting).ExpectedWorkload); got != 1 {
		t.Errorf("%d classes are expected, want 1", got)
	}
	if got := len(gpuArgs(t, c).ExpectedWorkload); got != 0 {
		t.Error("The argument was changed")
	}
	if _, err := ExpectWorkload(loadProfile(t, stockProfile), given); err == nil {
		t.Error("A profile without a workload took one")
	}
	given[0].Weight = 0
	if _, err := ExpectWorkload(c, given); err == nil || !strings.Contains(err.Error(), "expectedWorkload[0].weight") {
		t.Errorf("A class without weight: %v", err)
	}
}

// gpuArgs returns the arguments of GPUDevice in the first profile.
func gpuArgs(tb testing.TB, c *schedconfig.KubeSchedulerConfiguration) *config.GPUDeviceArgs {
	tb.Helper()
	for i := range c.Profiles[0].PluginConfig {
		if args, ok := c.Profiles[0].PluginConfig[i].Args.(*config.GPUDeviceArgs); ok {
			return args
		}
	}
	tb.Fatal("no GPUDevice")
	return nil
}
