// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"strings"
	"testing"
)

// TestLoadConfigurationErrors are those of berth-scheduler.
func TestLoadConfigurationErrors(t *testing.T) {
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
}
