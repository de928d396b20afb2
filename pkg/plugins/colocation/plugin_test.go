// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// The profiles of one scheduler instance see each other's reservations; those of
// another one in the same process do not.
func TestProfilesShareTheIndex(t *testing.T) {
	profile, first := newProfile(t, newArgs(), schedtest.Options{})
	second, err := New(t.Context(), newArgs(), profile)
	if err != nil {
		t.Fatal(err)
	}
	_, other := newProfile(t, newArgs(), schedtest.Options{})
	if first.instance != second.(*Colocation).instance {
		t.Error("two profiles of one instance have an index each")
	}
	if first.instance == other.instance {
		t.Error("two instances share an index")
	}
}

// New must not change what the configuration says, nor depend on it afterwards.
func TestNewCopiesArgs(t *testing.T) {
	args := realisticArgs()
	_, pl := newProfile(t, args, schedtest.Options{})
	args.TopologyKeys[0] = "changed"
	if pl.policy.topologyKeys[0] != hostname {
		t.Error("the plugin shares memory with the configuration")
	}
}

func TestSignPod(t *testing.T) {
	tests := []struct {
		name string
		args *config.ColocationArgs
		pod  *corev1.Pod
		want fwk.Code
	}{
		{name: "asks for nothing", args: newArgs(), pod: asking()},
		{name: "names a Service", args: newArgs(), pod: asking(with, "backend"), want: fwk.Unschedulable},
		{name: "names one that does not exist", args: newArgs(), pod: asking(with, "missing"), want: fwk.Unschedulable},
		{name: "malformed", args: newArgs(), pod: asking(with, ""), want: fwk.Unschedulable},
		{name: "by a rule", args: newArgs(withRules(config.ColocationRule{PodSelector: appSelector("frontend"), Services: near("backend")})), pod: asking(), want: fwk.Unschedulable},
		{name: "a rule for others", args: newArgs(withRules(config.ColocationRule{PodSelector: appSelector("x"), Services: near("backend")})), pod: asking()},
		{name: "an unknown namespace", args: newArgs(withRules(config.ColocationRule{NamespaceSelector: appSelector("x"), Services: near("backend")})), pod: asking(), want: fwk.Unschedulable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, pl := newProfile(t, tt.args, schedtest.Options{})
			fragments, status := pl.SignPod(t.Context(), tt.pod)
			if status.Code() != tt.want {
				t.Errorf("want %v, got %v", tt.want, status)
			}
			if len(fragments) > 0 {
				t.Errorf("pods that ask for nothing are told apart by %v", fragments)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Name: t.Name(), Nodes: append(threeZones(), makeNode("nowhere", "")), Pods: []*corev1.Pod{makePod("b1", "backend", "a1")},
		Objects: objects(makeService("shop", "backend")),
	})
	filter := func(pod *corev1.Pod) { profile.Filter(t.Context(), t, pod) }
	// What an earlier run in the same process has counted does not count.
	nodeRejections.Reset()
	podRejections.Reset()
	placements.Reset()
	pl.counters = newCounters(t.Name())
	filter(asking(with, "backend", require, zone))
	filter(asking(with, "?"))
	filter(asking(with, "missing", require, zone))
	filter(asking(with, "missing", require, zone))
	filter(asking(with, "backend", require, "no-such"))
	// One pod on the peer's node, two in its zone, one elsewhere; and two that are near
	// nobody by their own wish.
	for i, chosen := range []struct {
		node string
		pod  *corev1.Pod
	}{
		{"a1", asking(with, "backend")},
		{"a2", asking(with, "backend")},
		{"a2", asking(with, "missing,backend")},
		{"b1", asking(with, "backend")},
		{"a1", asking()},
		{"a1", asking(with, "missing")},
	} {
		chosen.pod.UID = types.UID(strconv.Itoa(i))
		state, _, status := runPreFilter(t, profile, chosen.pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		pl.Reserve(t.Context(), state, chosen.pod, chosen.node)
		pl.Unreserve(t.Context(), state, chosen.pod, chosen.node)
	}
	got := map[string]float64{}
	for vector, reasons := range map[*metrics.CounterVec][]string{
		nodeRejections: {"NoPeer", "NoTopologyLabel"}, podRejections: {"Malformed", "WaitingForPeer", "NoTopologyKey", "UnknownNamespace"},
		placements: {"Nearest", "Near", "Apart"},
	} {
		for _, reason := range reasons {
			v, err := testutil.GetCounterMetricValue(vector.WithLabelValues(t.Name(), reason))
			if err != nil {
				t.Fatal(err)
			}
			got[reason] = v
		}
	}
	want := map[string]float64{"NoPeer": 4, "NoTopologyLabel": 1, "Malformed": 1, "WaitingForPeer": 2, "NoTopologyKey": 1, "UnknownNamespace": 0, "Nearest": 1, "Near": 2, "Apart": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want,+got):\n%s", diff)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, family := range families {
		served[family.GetName()] = true
	}
	for _, name := range []string{"berth_colocation_node_rejections_total", "berth_colocation_pod_rejections_total", "berth_colocation_placements_total", "berth_colocation_index_drift"} {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}
