// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

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
