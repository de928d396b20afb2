// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// TestPreviousConfigurations: a profile file that the release before this one shipped
// works as it is, or is refused with each field and what to write instead. The files in
// testdata/previous are as they were then (commit efb9379, until there is a first
// release); what changed for their owners stands in CHANGELOG.md.
func TestPreviousConfigurations(t *testing.T) {
	refused := map[string][]string{
		"colocation.yaml": {
			"profiles[0].pluginConfig[Colocation].args.prefer: Forbidden: is called topologyKeys now: rename it",
			"profiles[0].pluginConfig[Colocation].args.firstPodPolicy: Forbidden: is gone: a pod with a requiredTopologyKey waits",
			"profiles[0].pluginConfig[Colocation].args.nodeSearch: Forbidden: is gone: remove it, and enable the plugin NodeCandidates",
		},
		"tenancy.yaml": {"profiles[0].pluginConfig[LabelPresence].args.tenancy.nodeTaintKey: Required value: name the key of the taint"},
	}
	if compat.Release != "1.36" {
		refused["gpu-gang.yaml"] = []string{"Coscheduling is in Berth's build for Kubernetes 1.36 alone: remove it from the profile and place gangs by PodGroups"}
	}
	files, err := filepath.Glob("testdata/previous/*.yaml")
	if err != nil || len(files) < len(refused) {
		t.Fatalf("%d files in testdata/previous: %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			flags := settings.New()
			flags.Options.ConfigFile = file
			serves, err := validate(ctx, flags)
			switch wants := refused[name]; {
			case len(wants) == 0 && (err != nil || len(serves) == 0):
				t.Errorf("serves %v: %v", serves, err)
			case len(wants) > 0 && err == nil:
				t.Errorf("is accepted, and serves %v", serves)
			default:
				for _, want := range wants {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error does not contain %q:\n%v", want, err)
					}
				}
			}
		})
	}
}
