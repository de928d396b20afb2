// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package basic measures with Kubernetes' own scheduler_perf what all plugins of Berth
// cost pods that use none of them, beside stock kube-scheduler, with and without
// batching.
package basic

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/berth-scheduler/berth/test/perf/contest"
)

var topic = contest.Topic{Name: "basic"}

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) { contest.Run(b, topic) }

// Batching happens for both where the profiles meet its conditions, and for neither
// where they do not.
func TestSmall(t *testing.T) {
	report := contest.TestSmall(t, topic)
	for i := range report.Runs {
		run := &report.Runs[i]
		if batched := run.Metrics[contest.Batched]; (batched > 0) != (run.Scenario == "Batching") {
			t.Errorf("%s/%s: %.2f of the pods were batched", run.Scenario, run.Scheduler, batched)
		}
	}
}

// The profile of Batching is that of Plain, but for the arguments that batching needs;
// stock's has the same arguments and nothing else.
func TestBatchingProfiles(t *testing.T) {
	shipped := arguments(t, "../../../config/berth-scheduler/batching.yaml")
	for file, want := range map[string]map[string]any{
		"batching.yaml":       arguments(t, "../../../config/berth-scheduler/all-plugins.yaml"),
		"batching-stock.yaml": arguments(t, ""),
	} {
		for _, plugin := range []string{"InterPodAffinity", "PodTopologySpread"} {
			want[plugin] = shipped[plugin]
		}
		if diff := cmp.Diff(want, arguments(t, file)); diff != "" {
			t.Errorf("%s: unexpected arguments (-want,+got):\n%s", file, diff)
		}
	}
	ours := profile(t, "batching.yaml")
	if diff := cmp.Diff(profile(t, "../../../config/berth-scheduler/all-plugins.yaml").Plugins, ours.Plugins); diff != "" {
		t.Errorf("batching.yaml: unexpected plugins (-want,+got):\n%s", diff)
	}
}

// profile is the one profile of a file, that of stock without a file.
func profile(t *testing.T, file string) config.KubeSchedulerProfile {
	t.Helper()
	content := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	if file != "" {
		var err error
		if content, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return decoded.(*config.KubeSchedulerConfiguration).Profiles[0]
}

// arguments has those of the plugins of a file's profile, defaults included.
func arguments(t *testing.T, file string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, plugin := range profile(t, file).PluginConfig {
		all[plugin.Name] = plugin.Args
	}
	return all
}
