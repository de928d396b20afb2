// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedconfigv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// TestCustomResources makes sure that a CRD is asked for by the profiles that need
// it and by no other: without one, all others must start.
func TestCustomResources(t *testing.T) {
	for _, file := range profileFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, effective := load(t, file)
			var got []string
			for _, resource := range CustomResources(effective) {
				got = append(got, resource.Plugin+" "+resource.String())
				read(t, filepath.Join(root, resource.Definition)) // the message points at it
			}
			var want []string
			switch filepath.Base(file) {
			case "gpu-gang.yaml":
				want = []string{"Coscheduling scheduling.x-k8s.io/v1alpha1, Resource=podgroups"}
			case "gpu-numa.yaml":
				want = []string{"NodeResourceTopologyMatch topology.node.k8s.io/v1alpha2, Resource=noderesourcetopologies"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Unexpected custom resources (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestOutOfTreePluginsAreRegistered(t *testing.T) {
	registered := New()
	for _, plugin := range outOfTreePlugins() {
		if registered[plugin.name] == nil {
			t.Errorf("%s is not in the registry", plugin.name)
		}
		for _, version := range []string{"__internal", "v1"} {
			gvk := schema.GroupVersionKind{Group: schedconfig.GroupName, Version: version, Kind: plugin.name + "Args"}
			if !schedscheme.Scheme.Recognizes(gvk) || !schedconfigv1.GetPluginArgConversionScheme().Recognizes(gvk) {
				t.Errorf("%s is not in both schemes", gvk)
			}
		}
		for _, ours := range Plugins() {
			if ours.Name == plugin.name {
				t.Errorf("%s is both Berth's and out of tree", plugin.name)
			}
		}
	}
}

// TestPodGroupLabel: package podgroup knows no other project, and names its label.
func TestPodGroupLabel(t *testing.T) {
	if podgroup.Label != v1alpha1.PodGroupLabel {
		t.Errorf("the label is %s, and Coscheduling's %s", podgroup.Label, v1alpha1.PodGroupLabel)
	}
}
