// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestRejectionsAreCountedByRule(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{makeRule(true, "a"), makeRule(false, "b", "c")},
		Tenancy: makeTenancy(config.TenantsFree),
	}
	profile := startProfile(t, args, schedtest.Options{
		Name: t.Name(),
		Nodes: []*corev1.Node{
			makeNode("passes", map[string]string{"a": ""}),
			makeNode("breaks-rule-0", nil),
			makeNode("breaks-rule-0-and-1", map[string]string{"b": ""}),
			makeNode("breaks-rule-1", map[string]string{"a": "", "c": ""}),
			makeNode("breaks-tenancy", map[string]string{nodeTenantKey: "red"}),
		},
		Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)},
	})
	for range 2 {
		if _, status := profile.Filter(t.Context(), t, st.MakePod().Namespace("ns").Name("p").Obj()); !status.IsSuccess() {
			t.Fatalf("PreFilter: %v", status)
		}
	}
	got := map[string]float64{}
	for _, rule := range []string{"rules[0]", "rules[1]", "tenancy"} {
		value, err := testutil.GetCounterMetricValue(nodeRejections.WithLabelValues(t.Name(), rule))
		if err != nil {
			t.Fatal(err)
		}
		got[rule] = value
	}
	want := map[string]float64{"rules[0]": 4, "rules[1]": 2, "tenancy": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected counts (-want,+got):\n%s", diff)
	}
}

// kube-scheduler serves what is in the legacy registry.
func TestMetricsAreServed(t *testing.T) {
	newProfile(t, &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)}, schedtest.Options{Name: t.Name()})
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, family := range families {
		got[family.GetName()] = true
	}
	for _, name := range []string{"berth_labelpresence_node_rejections_total", "berth_labelpresence_tenancy_violations"} {
		if !got[name] {
			t.Errorf("%s is not served", name)
		}
	}
}
