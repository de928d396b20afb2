// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
)

// The sample's Deployments get three pods each, spread over the zones; those of
// Colocation name both the Services that they call and those that call them.
func TestSpreadOut(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("sample", "shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		t.Run(side.scheduler, func(t *testing.T) {
			manifests, err := spreadOut(content, side.scheduler)
			if err != nil {
				t.Fatal(err)
			}
			var list struct{ Items []appsv1.Deployment }
			if err := json.Unmarshal(manifests, &list); err != nil {
				t.Fatal(err)
			}
			named := map[string]string{}
			for _, d := range list.Items {
				if d.Kind != "Deployment" {
					continue
				}
				spec := &d.Spec.Template.Spec
				if *d.Spec.Replicas != 3 || spec.SchedulerName != side.scheduler || len(spec.TopologySpreadConstraints) != 1 ||
					spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["app"] != d.Name {
					t.Errorf("%s: got %d replicas, scheduler %q, spread %+v", d.Name, *d.Spec.Replicas, spec.SchedulerName, spec.TopologySpreadConstraints)
				}
				if services, ok := d.Spec.Template.Annotations[names.ColocateWithAnnotation]; ok {
					named[d.Name] = services
				}
			}
			want := map[string]string{}
			if side.scheduler == names.Scheduler {
				want = map[string]string{
					"storefront":   "basket=25,catalogue=25,orders=25,recommender=25",
					"catalogue":    "recommender=100,stockroom=100,storefront=25",
					"basket":       "basket-store=100,orders=33,storefront=25",
					"basket-store": "basket=100",
					"orders":       "basket=33,payments=33,stockroom=33,storefront=25",
					"payments":     "orders=33",
					"recommender":  "catalogue=100,storefront=25",
					"stockroom":    "catalogue=100,orders=33",
				}
			}
			if diff := cmp.Diff(want, named); diff != "" {
				t.Errorf("unexpected Services (-want,+got):\n%s", diff)
			}
		})
	}
	for _, broken := range []string{
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: many}",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}",
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: 80}",
	} {
		if _, err := spreadOut([]byte(broken), names.Scheduler); err == nil || !strings.Contains(err.Error(), "web") {
			t.Errorf("%q: got %v, want an error that names it", broken, err)
		}
	}
}

func TestPrintCallTable(t *testing.T) {
	var out strings.Builder
	printCallTable(&out, []callRow{
		{namespace: "one", scheduler: "stock", problem: errors.New("nobody is ready")},
		{namespace: "two", scheduler: "near", shares: map[callgraph.Routing]callgraph.Share{
			callgraph.Uniform:        {WithinNode: 0.254, WithinZone: 1.0 / 3},
			callgraph.PreferSameZone: {WithinNode: 0.75, WithinZone: 1},
			callgraph.PreferSameNode: {WithinNode: 0.756, WithinZone: 1},
		}},
	})
	want := []string{
		"NAMESPACE SCHEDULER NODE, none NODE, PreferSameZone NODE, PreferSameNode ZONE, none ZONE, PreferSameZone ZONE, PreferSameNode",
		"one stock nobody is ready",
		"two near 25 % 75 % 76 % 33 % 100 % 100 %",
	}
	if diff := cmp.Diff(want, squeeze(out.String())[3:]); diff != "" {
		t.Errorf("unexpected table (-want,+got):\n%s", diff)
	}
}

func TestPrintCallsVerdict(t *testing.T) {
	result := &verdict.Result{Pods: []verdict.Pod{{Namespace: "near", Name: "web", SchedulerName: "berth-scheduler"}}}
	var good, bad strings.Builder
	printCallsVerdict(&good, result)
	if want := "calls were counted: all 1 are where"; !strings.Contains(good.String(), want) {
		t.Errorf("got %q, want %q", good.String(), want)
	}
	result.Pods[0].Violations = []string{"has no node"}
	result.Violations = []string{"deployment near/web: wants 3 pods and has 1"}
	printCallsVerdict(&bad, result)
	want := "VIOLATION near/web (berth-scheduler): has no node\nVIOLATION deployment near/web: wants 3 pods and has 1\n" +
		"Verdict on the pods whose calls were counted: 2 violations.\n"
	if diff := cmp.Diff(want, bad.String()); diff != "" {
		t.Errorf("unexpected verdict (-want,+got):\n%s", diff)
	}
}
