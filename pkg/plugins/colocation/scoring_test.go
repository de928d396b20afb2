// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestScore(t *testing.T) {
	cache := func() []*corev1.Pod { return []*corev1.Pod{makePod("cache-1", "cache", "b1")} }
	tests := []struct {
		name     string
		args     *config.ColocationArgs
		pods     []*corev1.Pod
		services []runtime.Object
		pod      *corev1.Pod
		want     map[string]int64
	}{
		{
			// Two levels: the node is in the upper half, the zone in the lower; within
			// each it counts how many peers are how near.
			name: "one peer", pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")},
			pod: asking(with, "backend"), want: map[string]int64{"a1": 100, "a2": 25, "b1": 0, "b2": 0, "c1": 0, "c2": 0},
		},
		{
			name: "more peers attract more",
			pods: []*corev1.Pod{
				makePod("backend-1", "backend", "a1"), makePod("backend-2", "backend", "a1"), makePod("backend-3", "backend", "a1"), makePod("backend-4", "backend", "b1"),
			},
			pod: asking(with, "backend"), want: map[string]int64{"a1": 87, "a2": 18, "b1": 62, "b2": 6, "c1": 0, "c2": 0},
		},
		{
			name: "a near node with one peer beats a far one with many",
			pods: []*corev1.Pod{makePod("backend-1", "backend", "a1"), makePod("backend-2", "backend", "b1"), makePod("backend-3", "backend", "b1")},
			pod:  asking(with, "backend"), want: map[string]int64{"a1": 66, "a2": 8, "b1": 83, "b2": 16, "c1": 0, "c2": 0},
		},
		{
			name: "the zone alone", pods: []*corev1.Pod{makePod("backend-1", "backend", "a1"), makePod("backend-2", "backend", "b1")},
			pod: asking(with, "backend", prefer, zone), want: map[string]int64{"a1": 50, "a2": 50, "b1": 50, "b2": 50, "c1": 0, "c2": 0},
		},
		{
			name: "levels in another order", pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")},
			pod: asking(with, "backend", prefer, zone+","+hostname), want: map[string]int64{"a1": 100, "a2": 75, "b1": 0, "b2": 0, "c1": 0, "c2": 0},
		},
		{
			name: "two Services by weight", pods: append(cache(), makePod("backend-1", "backend", "a1")), services: objects(makeService("shop", "cache")),
			pod: asking(with, "backend=3,cache", prefer, hostname), want: map[string]int64{"a1": 75, "a2": 0, "b1": 25, "b2": 0, "c1": 0, "c2": 0},
		},
		{
			name: "a Service without a peer takes no weight from the others",
			pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")}, services: objects(makeService("shop", "cache")),
			pod: asking(with, "backend,cache=100,missing=100", prefer, hostname), want: map[string]int64{"a1": 100, "a2": 0, "b1": 0, "b2": 0, "c1": 0, "c2": 0},
		},
		{
			name: "rules and annotations by the rules' weights", services: objects(makeService("shop", "cache")),
			pods: append(cache(), makePod("backend-1", "backend", "a1")),
			args: newArgs(withRules(config.ColocationRule{Services: near("backend"), TopologyKeys: []string{hostname}, Weight: 4})),
			pod:  asking(with, "cache", prefer, hostname), want: map[string]int64{"a1": 80, "a2": 0, "b1": 20, "b2": 0, "c1": 0, "c2": 0},
		},
		{
			name: "a key that no node has is no level", pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")},
			pod: asking(with, "backend", prefer, "example.com/rack,"+zone), want: map[string]int64{"a1": 25, "a2": 25, "b1": 0, "b2": 0, "c1": 0, "c2": 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = newArgs()
			}
			profile, _ := startProfile(t, tt.args, schedtest.Options{
				Nodes: threeZones(), Pods: tt.pods, Objects: append(objects(makeService("shop", "backend")), tt.services...),
			})
			if diff := cmp.Diff(tt.want, profile.Scores(t.Context(), t, tt.pod)); diff != "" {
				t.Errorf("scores (-want,+got):\n%s", diff)
			}
		})
	}
}

// Weights as large as they can be must not overflow, and the best possible node
// must have the best possible score.
func TestScoreOfLargestWeights(t *testing.T) {
	var rules []config.ColocationRule
	for range 1000 {
		rule := config.ColocationRule{Weight: 100}
		for range 32 {
			rule.Services = append(rule.Services, config.ColocationService{Name: "backend", Weight: 100})
		}
		rules = append(rules, rule)
	}
	policy, err := newPolicy(newArgs(withRules(rules...)))
	if err != nil {
		t.Fatal(err)
	}
	_, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{makePod("backend-1", "backend", "a1")}, Objects: objects(makeService("shop", "backend")),
	})
	pod := asking()
	r, err := policy.requestOf(pod, pl.instance.namespaceLabels)
	if err != nil {
		t.Fatal(err)
	}
	found := lookUp(pl.instance.index, pod, &r)
	s := newPreFilterState(found.targets)
	for name, want := range map[string]int64{"a1": 100, "a2": 25, "b1": 0} {
		if got := s.score(makeNode(name, name[:1]).Labels); got != want {
			t.Errorf("node %s: %d, want %d", name, got, want)
		}
	}
}

// To the author of a pod, a Service that does not let it near is one that does not
// exist: in text, in score, and in where the pod may go.
func TestForbiddenIsMissing(t *testing.T) {
	db := makePod("db-1", "db", "b1")
	db.Namespace = "data"
	type seen struct {
		Scores  map[string]int64
		Passing map[string]bool
		Status  string
		Event   string
	}
	observe := func(t *testing.T, args *config.ColocationArgs, annotations []string, services ...runtime.Object) seen {
		t.Helper()
		pod := asking(annotations...)
		profile, _ := startProfile(t, args, schedtest.Options{
			Nodes: threeZones(), Pods: []*corev1.Pod{pod, db, makePod("backend-1", "backend", "a1")}, Objects: append(services, makeService("shop", "backend")),
		})
		var got seen
		_, _, status := runPreFilter(t, profile, pod)
		got.Status = status.Message()
		if status.IsSuccess() {
			got.Scores, got.Passing = profile.Scores(t.Context(), t, pod), passing(t, profile, pod)
		}
		select {
		case got.Event = <-profile.Events:
		default:
		}
		if len(profile.Events) > 0 {
			t.Errorf("a second event: %s", <-profile.Events)
		}
		return got
	}
	for name, annotations := range map[string][]string{
		"preferred": {with, "data/db"}, "preferred beside another": {with, "backend,data/db=100"},
		"required": {with, "data/db", require, zone}, "required beside another": {with, "backend,data/db=100", require, zone},
	} {
		t.Run(name, func(t *testing.T) {
			args := newArgs()
			missing := observe(t, args, annotations)
			for consent, service := range map[string]runtime.Object{
				"none":    makeService("data", "db"),
				"others":  annotated(makeService("data", "db"), allow, "other,shopping"),
				"garbage": annotated(makeService("data", "db"), allow, "shop*,[shop]"),
			} {
				if diff := cmp.Diff(missing, observe(t, args, annotations, service)); diff != "" {
					t.Errorf("consent to %s is told from a missing Service (-missing,+forbidden):\n%s", consent, diff)
				}
			}
			allowed := observe(t, args, annotations, annotated(makeService("data", "db"), allow, "*"))
			if cmp.Equal(missing, allowed) {
				t.Error("consent makes no difference: the test shows nothing")
			}
			if required := len(annotations) > 2; !required && missing.Event == "" || required && missing.Status == "" {
				t.Errorf("the author of the pod is told nothing: %+v", missing)
			}
		})
	}
}
