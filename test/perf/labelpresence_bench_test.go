// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perf holds benchmarks that put a plugin of Berth beside what a stock
// kube-scheduler offers for the same purpose, in one run. Compare with
//
//	go test ./test/perf -run '^$' -bench LabelPresence -count 10 | benchstat -col /plugin -
package perf

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

const (
	nodes = 5000
	// label is on every second node.
	label = "selectable"
)

// alternative is one way to ask for nodes that carry a label.
type alternative struct {
	name string
	new  func(context.Context, fwk.Handle) (fwk.Plugin, error)
}

// alternatives are LabelPresence and the in-tree NodeAffinity plugin with an
// affinity added by the profile, the closest thing that stock has: it asks the
// same of every pod, without scopes and exemptions.
func alternatives() []alternative {
	affinity := &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}}},
		}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight:     1,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}}},
		}},
	}
	return []alternative{
		{"NodeAffinity", func(ctx context.Context, h fwk.Handle) (fwk.Plugin, error) {
			return nodeaffinity.New(ctx, &schedconfig.NodeAffinityArgs{AddedAffinity: affinity}, h, feature.Features{})
		}},
		{"LabelPresence", func(ctx context.Context, h fwk.Handle) (fwk.Plugin, error) {
			return labelpresence.New(ctx, &config.LabelPresenceArgs{
				Rules:       []config.LabelPresenceRule{{Labels: []string{label}, Presence: ptr.To(true)}},
				Preferences: []config.LabelPresencePreference{{Label: label, Presence: ptr.To(true), Weight: 1}},
				DaemonSets:  config.DaemonSetsExempt,
			}, h)
		}},
	}
}

// BenchmarkLabelPresenceFilter is one pod against one node that passes,
// cycling over the nodes.
func BenchmarkLabelPresenceFilter(b *testing.B) {
	for _, c := range alternatives() {
		b.Run(fmt.Sprintf("plugin=%s/nodes=%d", c.name, nodes), func(b *testing.B) {
			ctx, plugin, infos := setUp(b, c)
			pod, state := st.MakePod().Name("p").Namespace("default").Obj(), framework.NewCycleState()
			if _, status := plugin.(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, infos); !status.IsSuccess() {
				b.Fatalf("PreFilter: %v", status)
			}
			filter := plugin.(fwk.FilterPlugin)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if status := filter.Filter(ctx, state, pod, infos[i]); !status.IsSuccess() {
					b.Fatalf("%s: %v", infos[i].Node().Name, status)
				}
				if i += 2; i == nodes {
					i = 0
				}
			}
		})
	}
}

// BenchmarkLabelPresenceScore is the same for the score.
func BenchmarkLabelPresenceScore(b *testing.B) {
	for _, c := range alternatives() {
		b.Run(fmt.Sprintf("plugin=%s/nodes=%d", c.name, nodes), func(b *testing.B) {
			ctx, plugin, infos := setUp(b, c)
			pod, state := st.MakePod().Name("p").Namespace("default").Obj(), framework.NewCycleState()
			if status := plugin.(fwk.PreScorePlugin).PreScore(ctx, state, pod, infos); !status.IsSuccess() {
				b.Fatalf("PreScore: %v", status)
			}
			scorer := plugin.(fwk.ScorePlugin)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if score, status := scorer.Score(ctx, state, pod, infos[i]); score == 0 || !status.IsSuccess() {
					b.Fatalf("%s: score %d, %v", infos[i].Node().Name, score, status)
				}
				if i += 2; i == nodes {
					i = 0
				}
			}
		})
	}
}

// setUp builds one scheduler in a real framework handle, and the nodes.
func setUp(b *testing.B, c alternative) (context.Context, fwk.Plugin, []fwk.NodeInfo) {
	b.Helper()
	metrics.Register()
	_, ctx := ktesting.NewTestContext(b)
	registry := frameworkruntime.Registry{}
	client := fake.NewClientset()
	handle, err := frameworkruntime.NewFramework(ctx, registry, nil,
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithClientSet(client))
	if err != nil {
		b.Fatal(err)
	}
	plugin, err := c.new(ctx, handle)
	if err != nil {
		b.Fatal(err)
	}
	infos := make([]fwk.NodeInfo, nodes)
	for i := range infos {
		labels := map[string]string{
			corev1.LabelHostname: fmt.Sprintf("node-%d", i), corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "m8.large",
		}
		if i%2 == 0 {
			labels[label] = ""
		}
		info := framework.NewNodeInfo()
		info.SetNode(&corev1.Node{ObjectMeta: st.MakeNode().Name(labels[corev1.LabelHostname]).Obj().ObjectMeta})
		info.Node().Labels = labels
		infos[i] = info
	}
	return ctx, plugin, infos
}
