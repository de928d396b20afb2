// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

func TestNeededRightsFollowTheConfiguration(t *testing.T) {
	config := &schedconfig.KubeSchedulerConfiguration{}
	config.LeaderElection.LeaderElect = true
	config.LeaderElection.ResourceNamespace = "ns"
	config.LeaderElection.ResourceName = "lease"
	texts := func(config *schedconfig.KubeSchedulerConfiguration, gates bool) string {
		var b strings.Builder
		for _, r := range neededRights(config, func(featuregate.Feature) bool { return gates }) {
			if r.Why == "" {
				t.Errorf("%s: no reason given", r)
			}
			b.WriteString(r.String() + "\n")
		}
		return b.String()
	}

	all := texts(config, true)
	for _, want := range []string{
		"create pods/binding\n", `update leases.coordination.k8s.io "lease" in namespace "ns"` + "\n",
		`create leasecandidates.coordination.k8s.io in namespace "kube-system"` + "\n",
		"list resourceclaims.resource.k8s.io\n", "watch podgroups.scheduling.k8s.io\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("want %q among\n%s", want, all)
		}
	}
	config.LeaderElection.LeaderElect = false
	few := texts(config, false)
	for _, absent := range []string{"leases", "leasecandidates", "resourceclaims", "podgroups"} {
		if strings.Contains(few, absent) {
			t.Errorf("%s is asked for though its feature is off:\n%s", absent, few)
		}
	}
}

func TestPluginRightsFollowTheProfiles(t *testing.T) {
	running := &schedconfig.Plugins{}
	if got := pluginRights(map[string]*schedconfig.Plugins{"a": running}); len(got) != 0 {
		t.Errorf("a profile without Colocation needs %v", got)
	}
	running.Filter.Enabled = []schedconfig.Plugin{{Name: "Colocation"}}
	got := pluginRights(map[string]*schedconfig.Plugins{"a": {}, "b": running})
	if len(got) != 2 {
		t.Errorf("want the right to list and to watch, got %v", got)
	}
	for _, right := range got {
		if right.Group != "discovery.k8s.io" || right.Resource != "endpointslices" || right.Why == "" {
			t.Errorf("unexpected right %+v", right)
		}
	}
}
