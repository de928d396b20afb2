// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package colocation measures with Kubernetes' own scheduler_perf what it costs to
// place a pod near a Service: Colocation with the shipped profile beside the same
// preference as inter-pod affinity on stock kube-scheduler, with few and with many pods
// of that Service, and how many of the pods land where they want; and what the profile
// costs pods that name no Service.
package colocation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/perf/contest"
)

const (
	onPeersNode = "on peer's node"
	inPeersZone = "in peer's zone"
)

// templates/node.yaml and templates/pod-existing.yaml make a pod of the backend on
// every fourth node, and so in every second of ten zones.
var topic = contest.Topic{
	Name: "colocation",
	Inspect: func(scenario string, nodes []string, into map[string]float64) error {
		if scenario != "Peers" {
			return nil
		}
		if err := contest.ShareOfNodes(nodes, 4, onPeersNode, into); err != nil {
			return err
		}
		return contest.ShareOfNodes(nodes, 2, inPeersZone, into)
	},
}

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) {
	fmt.Print(growth(contest.Run(b, topic)))
}

// growth tells how the algorithm's time grows with the number of existing pods.
func growth(report *contest.Report) string {
	var out strings.Builder
	for _, scheduler := range []string{"Berth", "Stock"} {
		var ratios []float64
		for pair := range report.Pairs {
			took := map[string]float64{}
			for i := range report.Runs {
				if run := &report.Runs[i]; run.Pair == pair && run.Scheduler == scheduler {
					took[run.Workload] = run.Metrics[contest.Algorithm]
				}
			}
			if few, many := took["5000Pods"], took["50000Pods"]; few > 0 && many > 0 {
				ratios = append(ratios, many/few)
			}
		}
		if len(ratios) > 0 {
			slices.Sort(ratios)
			fmt.Fprintf(&out, "Peers, algorithm ms, 50,000 over 5,000 existing pods, %s: median %.2f, from %.2f to %.2f\n",
				scheduler, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
		}
	}
	return out.String()
}

// With few nodes, all of which are looked at, either scheduler finds its peers.
func TestSmall(t *testing.T) {
	report := contest.TestSmall(t, topic)
	for i := range report.Runs {
		run := &report.Runs[i]
		if share := run.Metrics[onPeersNode]; run.Scenario == "Peers" && share < 0.9 {
			t.Errorf("%s: %.2f of the pods are on a node of a peer, want nearly all", run.Scheduler, share)
		}
	}
}

func TestGrowth(t *testing.T) {
	run := func(pair int, scheduler, workload string, ms float64) contest.Measurement {
		return contest.Measurement{Pair: pair, Scheduler: scheduler, Workload: workload, Metrics: map[string]float64{contest.Algorithm: ms}}
	}
	got := growth(&contest.Report{Pairs: 3, Runs: []contest.Measurement{
		run(0, "Berth", "5000Pods", 1), run(0, "Berth", "50000Pods", 1.5),
		run(0, "Stock", "5000Pods", 5), run(0, "Stock", "50000Pods", 30),
		run(1, "Berth", "5000Pods", 1), run(1, "Berth", "50000Pods", 1),
		run(2, "Berth", "5000Pods", 1), run(2, "Berth", "50000Pods", 1.1),
	}})
	want := "Peers, algorithm ms, 50,000 over 5,000 existing pods, Berth: median 1.10, from 1.00 to 1.50\n" +
		"Peers, algorithm ms, 50,000 over 5,000 existing pods, Stock: median 6.00, from 6.00 to 6.00\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
