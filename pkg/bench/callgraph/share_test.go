// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"fmt"
	"math"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsOn are ready pods of a Deployment in namespace shop, one on each node.
func podsOn(app string, nodes ...string) []corev1.Pod {
	var pods []corev1.Pod
	for i, node := range nodes {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("%s-%d", app, i), Labels: map[string]string{"app": app}}}
		pod.Spec.NodeName = node
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pods = append(pods, pod)
	}
	return pods
}

// nodes are nodes whose zone is the first letter of their name; x has none.
func nodes(all ...string) []corev1.Node {
	var made []corev1.Node
	for _, name := range all {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if zone := name[:1]; zone != "x" {
			node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		}
		made = append(made, node)
	}
	return made
}

func TestShare(t *testing.T) {
	unready := podsOn("cart", "a1")
	unready[0].Status.Conditions[0].Status = corev1.ConditionFalse
	leaving := podsOn("cart", "a1")
	leaving[0].DeletionTimestamp = &metav1.Time{}
	failed := podsOn("front", "a1")
	failed[0].Status.Phase = corev1.PodFailed
	pending := podsOn("front", "")
	stranger := podsOn("cart", "a1")
	stranger[0].Namespace = "other"

	// front calls cart and ads, cart calls db.
	calls := [][]string{{"front", "cart:80", "ads:80"}, {"cart", "db:80"}, {"ads"}, {"db"}}
	tests := []struct {
		name string
		pods [][]corev1.Pod
		// want is node and zone under Uniform, PreferSameZone and PreferSameNode.
		want    [3][2]float64
		callers int
	}{
		{
			name:    "all on one node",
			pods:    [][]corev1.Pod{podsOn("front", "a1"), podsOn("cart", "a1"), podsOn("ads", "a1"), podsOn("db", "a1")},
			want:    [3][2]float64{{1, 1}, {1, 1}, {1, 1}},
			callers: 2,
		},
		{
			// front: cart on the node, ads in another zone: 1/2, 1/2. cart: db in the zone: 0, 1.
			name:    "each caller counts the same, whatever it calls",
			pods:    [][]corev1.Pod{podsOn("front", "a1"), podsOn("cart", "a1"), podsOn("ads", "b1"), podsOn("db", "a2")},
			want:    [3][2]float64{{0.25, 0.75}, {0.25, 0.75}, {0.25, 0.75}},
			callers: 2,
		},
		{
			// Every front sees one cart of two on its node or in its zone, and the same of
			// ads; every cart sees no db on its node, and one of two in its zone.
			name:    "one in each zone",
			pods:    [][]corev1.Pod{podsOn("front", "a1", "b1"), podsOn("cart", "a1", "b1"), podsOn("ads", "a2", "b2"), podsOn("db", "a3", "b3")},
			want:    [3][2]float64{{0.125, 0.5}, {0.25, 1}, {0.25, 1}},
			callers: 4,
		},
		{
			// front on a1: carts are a1, a2, b1; ads b1. cart: three, db is a1.
			// Uniform: front (1/3+0)/2, (2/3+0)/2; carts 1, 0, 0 and 1, 1, 0.
			// Same zone: front (1/2+0)/2, (1+0)/2. Same node: front (1+0)/2, (1+0)/2.
			name:    "several endpoints",
			pods:    [][]corev1.Pod{podsOn("front", "a1"), podsOn("cart", "a1", "a2", "b1"), podsOn("ads", "b1"), podsOn("db", "a1")},
			want:    [3][2]float64{{(1.0/6 + 1) / 4, (1.0/3 + 2) / 4}, {(0.25 + 1) / 4, (0.5 + 2) / 4}, {(0.5 + 1) / 4, (0.5 + 2) / 4}},
			callers: 4,
		},
		{
			name: "who cannot answer or call does not count",
			pods: [][]corev1.Pod{
				podsOn("front", "a1"), podsOn("cart", "b1"), podsOn("ads", "b1"), podsOn("db", "b1"),
				unready, leaving, failed, pending, stranger,
			},
			// The unready cart still calls db; front and it are in a, all else in b.
			want:    [3][2]float64{{1.0 / 3, 1.0 / 3}, {1.0 / 3, 1.0 / 3}, {1.0 / 3, 1.0 / 3}},
			callers: 3,
		},
		{
			// Uniform: front half a cart on its node and nothing of ads. One cart on a
			// node without a zone undoes the zone's hints for cart.
			name:    "a node without a zone",
			pods:    [][]corev1.Pod{podsOn("front", "a1"), podsOn("cart", "a2", "x1"), podsOn("ads", "x1"), podsOn("db", "x1")},
			want:    [3][2]float64{{1.0 / 3, (0.25 + 1) / 3}, {1.0 / 3, (0.25 + 1) / 3}, {1.0 / 3, (0.25 + 1) / 3}},
			callers: 3,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var deployments []appsv1.Deployment
			var services []corev1.Service
			for _, call := range calls {
				deployments = append(deployments, deployment("shop", call[0], call[1:]...))
				services = append(services, service("shop", call[0]))
			}
			graph, err := Read(deployments, services)
			if err != nil {
				t.Fatal(err)
			}
			var placement Placement
			for _, pods := range tt.pods {
				placement.Pods = append(placement.Pods, pods...)
			}
			placement.Nodes = nodes("a1", "a2", "a3", "b1", "b2", "b3", "x1")
			for i, routing := range Routings() {
				got, err := graph.Share(placement, routing)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(got.WithinNode-tt.want[i][0])+math.Abs(got.WithinZone-tt.want[i][1]) > 1e-9 || got.Callers != tt.callers {
					t.Errorf("%s: got %+v, want %v of %d callers", routing, got, tt.want[i], tt.callers)
				}
			}
		})
	}
}

func TestShareRefuses(t *testing.T) {
	graph, err := Read([]appsv1.Deployment{deployment("shop", "front", "cart:80"), deployment("shop", "cart")}, []corev1.Service{service("shop", "cart")})
	if err != nil {
		t.Fatal(err)
	}
	byHand := &Graph{Workloads: []Workload{graph.Workloads[0]}}
	tests := []struct {
		name    string
		graph   *Graph
		pods    []corev1.Pod
		routing Routing
		want    string
	}{
		{"a routing that does not exist", graph, podsOn("front", "a1"), "PreferSameRack", `"PreferSameRack"`},
		{"nobody to answer", graph, podsOn("front", "a1"), Uniform, "deployment shop/front calls service shop/cart, which has no ready pod"},
		{"a Service that was not given", byHand, podsOn("front", "a1"), Uniform, "deployment shop/front calls service shop/cart, which was not given"},
		{"a caller's node that was not given", graph, podsOn("front", "c1"), Uniform, `pod shop/front-0 is on node "c1"`},
		{"an endpoint's node that was not given", graph, append(podsOn("front", "a1"), podsOn("cart", "c1")...), Uniform, `pod shop/cart-0 is on node "c1"`},
		{"nobody who calls", graph, podsOn("cart", "a1"), Uniform, "none of 1 pods calls a Service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.graph.Share(Placement{Pods: tt.pods, Nodes: nodes("a1")}, tt.routing)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
