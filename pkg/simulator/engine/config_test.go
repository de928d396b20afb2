// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/registry"
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
			if foreign := map[string]string{"gpu-gang.yaml": registry.GangPlugin, "gpu-numa.yaml": registry.NUMAPlugin}[name]; foreign != "" {
				if err == nil || !strings.Contains(err.Error(), foreign+" cannot be simulated") {
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
