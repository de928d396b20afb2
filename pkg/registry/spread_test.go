// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
)

// Pods that ask for nothing of Berth's are scored in every shipped profile as stock
// scores them: whoever makes one of them the cluster's scheduler loses no spreading
// over zones and nodes. Berth's own plugins come on top.
func TestShippedProfilesScoreAsStock(t *testing.T) {
	_, stock := load(t, root+"/config/simulator/default-scheduler.yaml")
	want := scoreWeights(stock["default-scheduler"])
	if len(want) == 0 {
		t.Fatal("stock scores nothing")
	}
	own := map[string]bool{NUMAPlugin: true} // with weight 1, in the profile of its own
	for _, plugin := range Plugins() {
		own[plugin.Name] = true
	}
	for _, file := range profileFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			config, effective := load(t, file)
			for name, plugins := range effective {
				got := scoreWeights(plugins)
				if _, ok := got[deviceclaims.Name]; ok {
					got[pluginnames.DynamicResources] = want[pluginnames.DynamicResources] // in whose place it runs
				}
				maps.DeleteFunc(got, func(plugin string, _ int32) bool { return own[plugin] })
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("profile %s: unexpected weights of the scores (-stock,+profile):\n%s", name, diff)
				}
			}
			if filepath.Base(file) == "batching.yaml" {
				return // which is about switching it off, and says what that costs
			}
			for i := range config.Profiles {
				for _, pluginConfig := range config.Profiles[i].PluginConfig {
					if args, ok := pluginConfig.Args.(*schedconfig.PodTopologySpreadArgs); ok && args.DefaultingType != schedconfig.SystemDefaulting {
						t.Errorf("profiles[%d]: PodTopologySpread's defaultingType is %s: the pods of a Service are not spread", i, args.DefaultingType)
					}
				}
			}
		})
	}
}

func scoreWeights(plugins *schedconfig.Plugins) map[string]int32 {
	weights := map[string]int32{}
	for _, plugin := range plugins.Score.Enabled {
		weights[plugin.Name] = plugin.Weight
	}
	return weights
}
