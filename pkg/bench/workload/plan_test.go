// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// read reads a workload with this spec, indented by two.
func read(t *testing.T, spec string) (*Workload, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.yaml")
	content := "apiVersion: bench.berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: test}\nspec:\n" + spec
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(path)
}

func mustPlan(t *testing.T, spec string, format RequestFormat) *Plan {
	t.Helper()
	w, err := read(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := w.Plan(format)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// arriving returns the names of the arriving pods, in their order.
func arriving(plan *Plan) []string {
	var names []string
	for _, arrival := range plan.Arrivals {
		names = append(names, arrival.Pod.Name)
	}
	return names
}

const (
	oneNode  = "  nodes: [{count: 1, cpu: 4, memory: 8Gi}]\n"
	gpuNodes = `  nodes:
  - {count: 2, namePrefix: a, zones: [x, z], cpu: 4, memory: 8Gi, labels: {disk: ssd}, gpu: {model: NVIDIA-A10, count: 2, memoryMiB: 23028}}
  - {count: 1, namePrefix: a, cpu: 4, memory: 8Gi, pods: 10, gpu: {model: Tesla-T4, count: 1, memoryMiB: 15360}}
`
)

// TestDeterminism writes out the same workload twice, and in both requestFormats.
func TestDeterminism(t *testing.T) {
	for _, file := range []string{"smoke.yaml", "churn.yaml", "gpu-mix.yaml"} {
		t.Run(file, func(t *testing.T) {
			var plans []*Plan
			for _, format := range []RequestFormat{Shares, Shares, DevicePlugin} {
				w, err := Read(filepath.Join(folder, file))
				if err != nil {
					t.Fatal(err)
				}
				plan, err := w.Plan(format)
				if err != nil {
					t.Fatal(err)
				}
				plans = append(plans, plan)
			}
			first, err := json.Marshal(plans[0])
			if err != nil {
				t.Fatal(err)
			}
			second, err := json.Marshal(plans[1])
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, second) {
				t.Errorf("The second time it is another one (-first,+second):\n%s", cmp.Diff(plans[0], plans[1], cmp.AllowUnexported(Plan{})))
			}
			strip := func(plan *Plan) (arrivals []Arrival) {
				for _, arrival := range plan.Arrivals {
					arrival.Pod = &corev1.Pod{ObjectMeta: arrival.Pod.ObjectMeta}
					arrival.Pod.Annotations = nil
					arrivals = append(arrivals, arrival)
				}
				return arrivals
			}
			if diff := cmp.Diff(strip(plans[0]), strip(plans[2])); diff != "" {
				t.Errorf("The requestFormats have different pods or times (-Shares,+DevicePlugin):\n%s", diff)
			}
			if diff := cmp.Diff(plans[0].Existing, plans[2].Existing); diff != "" {
				t.Errorf("The requestFormats have different existing pods (-Shares,+DevicePlugin):\n%s", diff)
			}
		})
	}
}

// TestSeed shows what the seed decides.
func TestSeed(t *testing.T) {
	const spec = oneNode + "  pods: [{name: a, count: 20, lifetime: {mean: 1s}}]\n  arrival: {type: Poisson, podsPerSecond: 10}\n"
	one, other := mustPlan(t, spec+"  seed: 1\n", Shares), mustPlan(t, spec+"  seed: 2\n", Shares)
	if slices.Equal(arriving(one), arriving(other)) {
		t.Error("The pods have the same order")
	}
	if one.Arrivals[1].At == other.Arrivals[1].At {
		t.Error("The second pods arrive at the same time")
	}
	lifetimes := func(plan *Plan) map[string]time.Duration {
		m := map[string]time.Duration{}
		for _, arrival := range plan.Arrivals {
			m[arrival.Pod.Name] = arrival.Lifetime
		}
		return m
	}
	if cmp.Equal(lifetimes(one), lifetimes(other)) {
		t.Error("The pods have the same lifetimes")
	}
	// What a seed gives must not change: reports name the workload's file alone.
	if diff := cmp.Diff([]string{"a-12", "a-2", "a-13", "a-16", "a-4"}, arriving(one)[:5]); diff != "" {
		t.Errorf("Seed 1 gives another order than it did before (-want,+got):\n%s", diff)
	}
	// The seed's numbers for one thing do not depend on another.
	listed := mustPlan(t, spec+"  seed: 1\n  order: AsListed\n", Shares)
	if !cmp.Equal(lifetimes(one), lifetimes(listed)) || listed.Arrivals[19].At != one.Arrivals[19].At {
		t.Error("The order decides on lifetimes or times")
	}
}

func TestOrder(t *testing.T) {
	const spec = oneNode + `  pods: [{name: b, count: 2}, {name: a, count: 1}]
  applications: [{name: shop, copies: 2, services: [{name: front, calls: [back]}, {name: back, replicas: 2}]}]
`
	want := []string{
		"b-0", "b-1", "a-0",
		"shop-0-front-0", "shop-0-back-0", "shop-0-back-1", "shop-1-front-0", "shop-1-back-0", "shop-1-back-1",
	}
	if diff := cmp.Diff(want, arriving(mustPlan(t, spec+"  order: AsListed\n", Shares))); diff != "" {
		t.Errorf("Unexpected order as listed (-want,+got):\n%s", diff)
	}
	shuffled := arriving(mustPlan(t, spec, Shares))
	if slices.Equal(want, shuffled) {
		t.Error("By default the order is not shuffled")
	}
	slices.Sort(want)
	slices.Sort(shuffled)
	if diff := cmp.Diff(want, shuffled); diff != "" {
		t.Errorf("Other pods are shuffled than listed (-want,+got):\n%s", diff)
	}
}

func TestArrivalTimes(t *testing.T) {
	const spec = oneNode + "  pods: [{name: a, count: 2000}]\n"
	t.Run("Burst", func(t *testing.T) {
		for _, arrival := range mustPlan(t, spec, Shares).Arrivals {
			if arrival.At != 0 || arrival.Lifetime != 0 {
				t.Fatalf("Pod %s arrives at %v and lives for %v, want at once and for ever", arrival.Pod.Name, arrival.At, arrival.Lifetime)
			}
		}
	})
	t.Run("Steady", func(t *testing.T) {
		for i, arrival := range mustPlan(t, spec+"  arrival: {type: Steady, podsPerSecond: 40}\n", Shares).Arrivals {
			if want := time.Duration(i) * 25 * time.Millisecond; (arrival.At - want).Abs() > time.Microsecond {
				t.Fatalf("Pod %d arrives at %v, want %v", i, arrival.At, want)
			}
		}
	})
	t.Run("Poisson", func(t *testing.T) {
		arrivals := mustPlan(t, spec+"  arrival: {type: Poisson, podsPerSecond: 40}\n", Shares).Arrivals
		// 2,000 intervals of 25 ms each: the standard error of the sum is 1.1 s.
		if last := arrivals[len(arrivals)-1].At; (last - 50*time.Second).Abs() > 5*time.Second {
			t.Errorf("The last pod arrives at %v, want about 50s", last)
		}
		short := 0
		for i := 1; i < len(arrivals); i++ {
			if arrivals[i].At-arrivals[i-1].At < 25*time.Millisecond {
				short++
			}
		}
		if part := float64(short) / 1999; math.Abs(part-(1-1/math.E)) > 0.05 {
			t.Errorf("%.3f of the intervals are shorter than the mean, want 0.632: they are not exponential", part)
		}
	})
}

func TestLifetimes(t *testing.T) {
	plan := mustPlan(t, oneNode+`  pods:
  - {name: fixed, count: 10, lifetime: {mean: 3s, distribution: Fixed}}
  - {name: varied, count: 2000, lifetime: {mean: 10s}}
  - {name: ever, count: 10}
`, Shares)
	sum, least := 0.0, time.Hour
	for _, arrival := range plan.Arrivals {
		switch group := plan.Group(arrival.Pod.Name).Name; {
		case group == "varied":
			sum += arrival.Lifetime.Seconds()
			least = min(least, arrival.Lifetime)
		case group == "fixed" && arrival.Lifetime != 3*time.Second, group == "ever" && arrival.Lifetime != 0:
			t.Errorf("Pod %s lives for %v", arrival.Pod.Name, arrival.Lifetime)
		}
	}
	if mean := sum / 2000; math.Abs(mean-10) > 1 {
		t.Errorf("The mean lifetime is %.2fs, want 10s", mean)
	}
	if least <= 0 {
		t.Error("A pod of a group with a lifetime lives for ever")
	}
}

// TestWeights shares pods out by weight.
func TestWeights(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       map[string]int
	}{
		{"even", "  totalPods: 10\n  pods: [{name: a, weight: 1}, {name: b, weight: 1}]\n", map[string]int{"a": 5, "b": 5}},
		{"the first of equals gets the rest", "  totalPods: 11\n  pods: [{name: a, weight: 1}, {name: b, weight: 1}]\n", map[string]int{"a": 6, "b": 5}},
		{"the largest remainders first", "  totalPods: 10\n  pods: [{name: a, weight: 34}, {name: b, weight: 18}, {name: c, weight: 48}]\n", map[string]int{"a": 3, "b": 2, "c": 5}},
		{"after those with a count", "  totalPods: 10\n  pods: [{name: a, count: 4}, {name: b, weight: 1}, {name: c, weight: 2}]\n", map[string]int{"a": 4, "b": 2, "c": 4}},
		{"too light for any", "  totalPods: 2\n  pods: [{name: a, weight: 1}, {name: b, weight: 100}]\n", map[string]int{"b": 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, oneNode+tt.spec, Shares)
			got := map[string]int{}
			for _, arrival := range plan.Arrivals {
				got[plan.Group(arrival.Pod.Name).Name]++
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected numbers of pods (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	spec := gpuNodes + "  pods: [{name: a, count: 1}]\n"
	labels := func(name, model, count, memory string, more map[string]string) map[string]string {
		all := map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
			"nvidia.com/gpu.product": model, "nvidia.com/gpu.count": count, "nvidia.com/gpu.memory": memory, "nvidia.com/gpu.replicas": "1",
		}
		maps.Copy(all, more)
		return all
	}
	for _, format := range RequestFormats() {
		t.Run(string(format), func(t *testing.T) {
			nodes := mustPlan(t, spec, format).Nodes
			want := []map[string]string{
				labels("a-0", "NVIDIA-A10", "2", "23028", map[string]string{"disk": "ssd", "topology.kubernetes.io/zone": "x"}),
				labels("a-1", "NVIDIA-A10", "2", "23028", map[string]string{"disk": "ssd", "topology.kubernetes.io/zone": "z"}),
				labels("a-2", "Tesla-T4", "1", "15360", nil),
			}
			for i, node := range nodes {
				wantDevices := int64(0)
				if format == Shares {
					want[i]["berth.dev/gpu-sharing"] = "true"
				} else {
					wantDevices = map[string]int64{"a-0": 2, "a-1": 2, "a-2": 1}[node.Name]
				}
				if diff := cmp.Diff(want[i], node.Labels); diff != "" {
					t.Errorf("Unexpected labels of node %d (-want,+got):\n%s", i, diff)
				}
				devices := node.Status.Allocatable["nvidia.com/gpu"]
				if devices.Value() != wantDevices {
					t.Errorf("Node %s advertises %v devices, want %d", node.Name, devices.Value(), wantDevices)
				}
			}
			if got := nodes[2].Status.Allocatable.Pods().Value(); got != 10 {
				t.Errorf("Node a-2 takes %d pods, want 10", got)
			}
			if got := nodes[0].Status.Capacity.Pods().Value(); got != 110 {
				t.Errorf("Node a-0 takes %d pods, want 110 by default", got)
			}
		})
	}
}

// TestDevices shows what pods ask for in either format.
func TestDevices(t *testing.T) {
	for _, tt := range []struct {
		name, gpu  string
		want       Group
		wantShares corev1.ResourceList
		wantPlugin int64
	}{
		{"share", "milli: 250", Group{Devices: 1, Milli: 250}, corev1.ResourceList{"berth.dev/gpu-milli": resource.MustParse("250")}, 1},
		{"share by memory", "memory: 4Gi", Group{Devices: 1, MemoryMiB: 4096}, corev1.ResourceList{"berth.dev/gpu-memory": resource.MustParse("4Gi")}, 1},
		{"whole devices", "count: 2", Group{Devices: 2, Milli: 1000}, corev1.ResourceList{"berth.dev/gpu-milli": resource.MustParse("2k")}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := gpuNodes + "  pods: [{name: a, count: 1, cpu: 100m, gpu: {" + tt.gpu + ", models: [nvidia-*, tesla-t4]}}]\n"
			plan := mustPlan(t, spec, Shares)
			pod := plan.Arrivals[0].Pod
			tt.want.Name = "a"
			if diff := cmp.Diff(&tt.want, plan.Group("a-0")); diff != "" {
				t.Errorf("Unexpected group (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantShares, pod.Spec.Containers[0].Resources.Limits); diff != "" {
				t.Errorf("Unexpected limits as shares (-want,+got):\n%s", diff)
			}
			if got, want := pod.Annotations["berth.dev/gpu-model"], "nvidia-*,tesla-t4"; got != want || pod.Spec.Affinity != nil {
				t.Errorf("The models are %q, with affinity %v, want %q", got, pod.Spec.Affinity, want)
			}

			pod = mustPlan(t, spec, DevicePlugin).Arrivals[0].Pod
			want := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(tt.wantPlugin, resource.DecimalSI)}
			if diff := cmp.Diff(want, pod.Spec.Containers[0].Resources.Limits); diff != "" {
				t.Errorf("Unexpected limits as devices (-want,+got):\n%s", diff)
			}
			terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			wantTerm := corev1.NodeSelectorRequirement{Key: "nvidia.com/gpu.product", Operator: corev1.NodeSelectorOpIn, Values: []string{"NVIDIA-A10", "Tesla-T4"}}
			if len(terms) != 1 || !cmp.Equal(terms[0].MatchExpressions, []corev1.NodeSelectorRequirement{wantTerm}) || len(pod.Annotations) > 0 {
				t.Errorf("The models are %v, with annotations %v, want %v", terms, pod.Annotations, wantTerm)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		format     RequestFormat
		want       string
	}{
		{"no shares", "  pods: [{name: a, count: 3, gpu: {count: 2}}, {name: b, count: 1}]\n", DevicePlugin, ""},
		{"shares as they are", "  pods: [{name: a, count: 3, gpu: {milli: 250}}]\n", Shares, ""},
		{
			"shares as devices", "  pods: [{name: a, count: 3, gpu: {milli: 250}}, {name: b, count: 5, gpu: {count: 2}}]\n", DevicePlugin,
			"Each of 3 shares of a device is requested as a whole device (nvidia.com/gpu: 1), because a scheduler without GPUDevice does not support shares: they take 3 devices instead of 0.8.",
		},
		{"by memory", "  pods: [{name: a, count: 1, gpu: {memory: 1Gi}}]\n", DevicePlugin, "all of them are by memory"},
		{"of both kinds", "  pods: [{name: a, count: 1, gpu: {memory: 1Gi}}, {name: b, count: 2, gpu: {milli: 500}}]\n", DevicePlugin, "they take 3 devices instead of 1.0 and what the 1 by memory need."},
		{"who talks to whom", "  applications: [{name: a, services: [{name: b}]}]\n", Shares, "berth.dev/colocate-with"},
		{"nobody says so", "  applications: [{name: a, colocate: Nobody, services: [{name: b}]}]\n", Shares, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(mustPlan(t, gpuNodes+tt.spec, tt.format).Notes, "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("Got the notes %q, want %q", got, tt.want)
			}
		})
	}
}

// TestColocate shows which Services pods name.
func TestColocate(t *testing.T) {
	const spec = oneNode + `  applications:
  - name: shop
    copies: 2
    %s
    services:
    - {name: front, calls: [cart, ads]}
    - {name: cart, calls: [db]}
    - {name: ads, calls: [cart, db, front]}
    - {name: db}
    - {name: alone}
`
	for _, tt := range []struct {
		name, option string
		want         map[string]string
		wantPrefer   string
	}{
		{"by default who calls and is called", "", map[string]string{
			"front": "shop-1-ads=83,shop-1-cart=50", "cart": "shop-1-ads=33,shop-1-db=100,shop-1-front=50",
			"ads": "shop-1-cart=33,shop-1-db=33,shop-1-front=83", "db": "shop-1-ads=33,shop-1-cart=100", "alone": "",
		}, ""},
		{"who is called", "colocate: Callees\n    colocatePrefer: [topology.kubernetes.io/zone]", map[string]string{
			"front": "shop-1-ads=83,shop-1-cart=50", "cart": "shop-1-db=100",
			"ads": "shop-1-cart=33,shop-1-db=33,shop-1-front=83", "db": "", "alone": "",
		}, "topology.kubernetes.io/zone"},
		{"nobody", "colocate: Nobody", map[string]string{"front": "", "cart": "", "ads": "", "db": "", "alone": ""}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, strings.ReplaceAll(spec, "%s", tt.option), Shares)
			got := map[string]string{}
			for _, arrival := range plan.Arrivals {
				if service, ok := strings.CutPrefix(arrival.Pod.Name, "shop-1-"); ok {
					services, prefer := arrival.Pod.Annotations["berth.dev/colocate-with"], arrival.Pod.Annotations["berth.dev/colocate-topology-keys"]
					got[strings.TrimSuffix(service, "-0")] = services
					if services != "" && prefer != tt.wantPrefer {
						t.Errorf("Pod %s prefers %q, want %q", arrival.Pod.Name, prefer, tt.wantPrefer)
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected services (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestExisting are placed where they fit and may be.
func TestExisting(t *testing.T) {
	plan := mustPlan(t, `  nodes:
  - {namePrefix: a, count: 3, cpu: 2, memory: 8Gi, labels: {disk: ssd}}
  - {namePrefix: b, count: 3, cpu: 1, memory: 8Gi}
  pods: [{name: new, count: 1}]
  existing: [{name: inside, count: 4, cpu: 1, requireNodeLabels: [disk]}, {name: outside, count: 3, cpu: 1, forbidNodeLabels: [disk]}]
`, Shares)
	on := map[string]int{}
	for _, pod := range plan.Existing {
		on[pod.Spec.NodeName]++
		if group := plan.Group(pod.Name); (group.Name == "inside") != strings.HasPrefix(pod.Spec.NodeName, "a-") {
			t.Errorf("Pod %s is on node %s", pod.Name, pod.Spec.NodeName)
		}
	}
	for name, most := range map[string]int{"a-0": 2, "a-1": 2, "a-2": 2, "b-0": 1, "b-1": 1, "b-2": 1} {
		if on[name] < 1 || on[name] > most {
			t.Errorf("%d pods are on node %s, want 1 to %d", on[name], name, most)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	const nodes = "  nodes: [{namePrefix: a, count: 3, cpu: 2, memory: 8Gi}, {namePrefix: b, count: 3, cpu: 1, memory: 8Gi}]\n" + onePod
	for _, tt := range []struct {
		name, spec string
		format     RequestFormat
		want       string
	}{
		{
			"too many existing pods", nodes + "  existing: [{name: c, count: 1, cpu: 100m}, {name: b, count: 9, cpu: 1}]\n", Shares,
			"test.yaml: spec.existing[1].count: Invalid value: 9: only the first 8 pods of them fit on the nodes that their labels allow",
		},
		{"too many pods for a node", "  nodes: [{count: 2, cpu: 8, memory: 8Gi, pods: 3}]\n" + onePod + "  existing: [{name: c, count: 7}]\n", Shares, "only the first 6 pods"},
		{"unknown format", oneNode + onePod, "shares", `format "shares": want one of [Shares DevicePlugin]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := read(t, tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Plan(tt.format); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Unexpected error: %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAllows(t *testing.T) {
	group := Group{RequireNodeLabels: []string{"a", "b"}, ForbidNodeLabels: []string{"c"}}
	for _, tt := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"a": "", "b": "x"}, true},
		{map[string]string{"a": ""}, false},
		{map[string]string{"a": "", "b": "", "c": ""}, false},
		{nil, false},
	} {
		if got := group.Allows(tt.labels); got != tt.want {
			t.Errorf("A node labeled %v is allowed: %v, want %v", tt.labels, got, tt.want)
		}
	}
	if !(&Group{}).Allows(nil) {
		t.Error("A group without terms has a forbidden node")
	}
}

// TestApplicationPods compares a Deployment with its pods, and the term for zones.
func TestApplicationPods(t *testing.T) {
	plan := mustPlan(t, oneNode+"  applications: [{name: a, spreadOverZones: true, replicas: 2, services: [{name: x, cpu: 1, memory: 1Gi, calls: [y-z]}, {name: y-z}]}]\n", Shares)
	deployment := &plan.Deployments[0]
	if got := deployment.Spec.Template.Spec.Containers[0].Env; !cmp.Equal(got, []corev1.EnvVar{{Name: "Y_Z_ADDR", Value: "a-0-y-z:80"}}) {
		t.Errorf("Unexpected environment %v", got)
	}
	found := 0
	for _, arrival := range plan.Arrivals {
		if arrival.Pod.Labels["app"] != deployment.Name {
			continue
		}
		found++
		if diff := cmp.Diff(deployment.Spec.Template.Spec, arrival.Pod.Spec); diff != "" {
			t.Errorf("Pod %s is not the Deployment's (-want,+got):\n%s", arrival.Pod.Name, diff)
		}
	}
	if found != 2 {
		t.Errorf("There are %d pods of Deployment %s, want 2", found, deployment.Name)
	}
	constraints := deployment.Spec.Template.Spec.TopologySpreadConstraints
	if len(constraints) != 1 || constraints[0].TopologyKey != "topology.kubernetes.io/zone" || constraints[0].WhenUnsatisfiable != corev1.DoNotSchedule ||
		constraints[0].MaxSkew != 1 || !cmp.Equal(constraints[0].LabelSelector.MatchLabels, map[string]string{"app": deployment.Name}) {
		t.Errorf("Unexpected constraints %v", constraints)
	}
}
