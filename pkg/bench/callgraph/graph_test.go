// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deployment is a Deployment whose container names addresses in its environment.
func deployment(namespace, name string, addresses ...string) appsv1.Deployment {
	labels := map[string]string{"app": name}
	container := corev1.Container{Name: "server"}
	for _, address := range addresses {
		container.Env = append(container.Env, corev1.EnvVar{Name: "ADDR", Value: address})
	}
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{container}
	return d
}

// service is the Service in front of the Deployment of the same name.
func service(namespace, name string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Selector = map[string]string{"app": name}
	return s
}

func names(keys []types.NamespacedName) string {
	var all []string
	for _, key := range keys {
		all = append(all, key.String())
	}
	return strings.Join(all, " ")
}

func TestParseAddress(t *testing.T) {
	tests := []struct{ value, want string }{
		{"cart:7070", "shop/cart"},
		{"cart.other:7070", "other/cart"},
		{"cart.other.svc:7070", "other/cart"},
		{"cart.other.svc.cluster.local:7070", "other/cart"},
		{"http://cart", "shop/cart"},
		{"http://cart.other:80/api?of=this", "other/cart"},
		{"redis://user:password@cart:6379/0", "shop/cart"},
		{"cart", ""},
		{"", ""},
		{"cart:", ""},
		{"cart:0", ""},
		{"cart:65536", ""},
		{"cart:http", ""},
		{"localhost:80", ""},
		{"127.0.0.1:80", ""},
		{"[::1]:80", ""},
		{"0.0.0.0:80", ""},
		{":8080", ""},
		{"db.example.com:5432", ""},
		{"https://api.example.com/v1", ""},
		{"http://%zz", ""},
		{"cart.:80", ""},
		{"Cart:80", ""},
		{"shop_session-id=x:80", ""},
		{"12:30", ""},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			got := ""
			if service, ok := parseAddress(tt.value, "shop"); ok {
				got = service.String()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	front := deployment("shop", "front", "cart:80", "http://ads.marketing/", "cart:80", "front:8080", "gone:80", "INFO")
	front.Spec.Template.Spec.InitContainers = []corev1.Container{{
		Name: "wait", Env: []corev1.EnvVar{{Name: "DB", Value: "db:5432"}, {Name: "ELSEWHERE", ValueFrom: &corev1.EnvVarSource{}}},
	}}
	external := service("shop", "front")
	external.Name = "front-external"
	graph, err := Read(
		[]appsv1.Deployment{front, deployment("shop", "cart", "db:5432"), deployment("shop", "db"), deployment("marketing", "ads", "front.shop:80")},
		[]corev1.Service{service("shop", "front"), external, service("shop", "cart"), service("shop", "db"), service("marketing", "ads")},
	)
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ Calls, Behind, Neighbours string }
	want := map[string]row{
		"shop/front":    {"marketing/ads shop/cart shop/db", "shop/front shop/front-external", "marketing/ads=1.33 shop/cart=0.33 shop/db=0.33"},
		"shop/cart":     {"shop/db", "shop/cart", "shop/db=1.00 shop/front=0.33"},
		"shop/db":       {"", "shop/db", "shop/cart=1.00 shop/front=0.33"},
		"marketing/ads": {"shop/front", "marketing/ads", "shop/front=1.33"},
	}
	got := map[string]row{}
	for _, workload := range graph.Workloads {
		neighbours, err := graph.Neighbours(workload.Deployment)
		if err != nil {
			t.Error(err)
		}
		var near []string
		for _, n := range neighbours {
			near = append(near, fmt.Sprintf("%s=%.2f", n.Service, n.Calls))
		}
		got[workload.Deployment.String()] = row{names(workload.Calls), names(workload.Behind), strings.Join(near, " ")}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if _, err := graph.Neighbours(types.NamespacedName{Namespace: "shop", Name: "nobody"}); err == nil || !strings.Contains(err.Error(), "shop/nobody") {
		t.Errorf("neighbours of a Deployment that was not read: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	unselected := deployment("shop", "front")
	unselected.Spec.Template.Labels = nil
	invalid := deployment("shop", "front")
	invalid.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
	empty := deployment("shop", "front")
	empty.Spec.Selector = &metav1.LabelSelector{}
	tests := []struct {
		name        string
		deployments []appsv1.Deployment
		services    []corev1.Service
		want        string
	}{
		{"a Deployment twice", []appsv1.Deployment{deployment("shop", "front"), deployment("shop", "front")}, nil, "deployment shop/front is given more than once"},
		{"a Service twice", nil, []corev1.Service{service("shop", "cart"), service("shop", "cart")}, "service shop/cart is given more than once"},
		{"a selector that misses its pods", []appsv1.Deployment{unselected}, nil, "deployment shop/front: spec.selector"},
		{"an invalid selector", []appsv1.Deployment{invalid}, nil, "deployment shop/front: spec.selector"},
		{"an empty selector", []appsv1.Deployment{empty}, nil, "deployment shop/front: spec.selector"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Read(tt.deployments, tt.services); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
