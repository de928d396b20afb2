// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
)

// users are the schedulers' names at the API server.
var users = map[string]string{
	corev1.DefaultSchedulerName: "system:kube-scheduler",
	names.Scheduler:             "system:serviceaccount:" + names.Namespace + ":" + names.Scheduler,
	names.RandomScheduler:       "system:serviceaccount:" + names.Namespace + ":" + names.RandomScheduler,
}

// TestRounds runs rounds of each kind on one control plane.
func TestRounds(t *testing.T) {
	b := start(t)
	t.Run("measures", b.testMeasures)
	t.Run("hostile neighbour", b.testHostileNeighbour)
	t.Run("churn", b.testChurn)
}

// testMeasures runs each scheduler once and compares every number with what the API
// server says.
func (b *bench) testMeasures(t *testing.T) {
	for _, name := range everyone {
		t.Run(name, func(t *testing.T) {
			round := b.run(t, "testdata/small.yaml", name)
			if len(round.Invalid) > 0 {
				t.Logf("the round does not count: %q", round.Invalid) // a busy machine
			}
			world := b.look(t, name)
			events := b.audit(t)
			began := checkTimes(t, round, world, events, name)
			if name == schedulers.BareBinderName {
				return // it places pods where they cannot be
			}
			checkCosts(t, round, world, since(events, began), name)
			checkPlacement(t, round, world, name == names.Scheduler)
		})
	}
}

// world is what the API server knows at the end of a round.
type world struct {
	nodes map[string]*corev1.Node
	// pods are a scheduler's, by name, and others those that were there before.
	pods   map[string]*corev1.Pod
	others []*corev1.Pod
	// bound are how many of pods have a node.
	bound int
}

func (b *bench) look(t *testing.T, scheduler string) *world {
	t.Helper()
	w := &world{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
	nodes, err := b.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		w.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	pods, err := b.Client.CoreV1().Pods(b.environment.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case strings.HasPrefix(pod.Name, "system-"):
			w.others = append(w.others, pod)
		case pod.Spec.SchedulerName == scheduler:
			w.pods[pod.Name] = pod
			if pod.Spec.NodeName != "" {
				w.bound++
			}
		default:
			t.Errorf("pod %s is neither %s's nor one that was there before", pod.Name, scheduler)
		}
	}
	if len(w.pods) != 20 || len(w.others) != 4 || len(w.nodes) != 6 {
		t.Fatalf("there are %d pods, %d others and %d nodes; want 20, 4 and 6", len(w.pods), len(w.others), len(w.nodes))
	}
	return w
}

// near reports whether two numbers are equal but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(a)) }

// since returns the requests from a time on.
func since(events []auditv1.Event, from time.Time) []auditv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool { return e.RequestReceivedTimestamp.Time.Before(from) })
}

// checkTimes checks counts and times against the API server's log of requests, and
// returns when the first pod's creation was received.
func checkTimes(t *testing.T, round report.Round, w *world, events []auditv1.Event, scheduler string) time.Time {
	t.Helper()
	created, bindings := map[string]time.Time{}, map[string]time.Time{}
	// Of each name the last: earlier rounds had the same pods.
	for i := range events {
		event := &events[i]
		of := map[string]map[string]time.Time{"pods": created, "pods/binding": bindings}[on(event)]
		name := event.ObjectRef.Name
		if of != nil && w.pods[name] != nil && event.Verb == "create" && event.ResponseStatus.Code == http.StatusCreated && event.RequestReceivedTimestamp.After(of[name]) {
			of[name] = event.RequestReceivedTimestamp.Time
		}
	}
	maps.DeleteFunc(bindings, func(pod string, at time.Time) bool { return at.Before(created[pod]) })
	if len(created) != len(w.pods) || len(bindings) != w.bound {
		t.Fatalf("%d creations and %d bindings of %s are in the audit log, and %d pods of which %d have a node", len(created), len(bindings), scheduler, len(w.pods), w.bound)
	}
	if got := round.Metrics[report.Unplaced]; got != float64(len(w.pods)-w.bound) {
		t.Errorf("%s is %v, and %d of %d pods have a node", report.Unplaced, got, w.bound, len(w.pods))
	}
	seconds, reasons := 0, 0
	for _, n := range round.BoundPerSecond {
		seconds += n
	}
	for _, n := range round.Reasons {
		reasons += n
	}
	if seconds != w.bound || reasons != len(w.pods)-w.bound {
		t.Errorf("%d pods are bound by the second, and %d have reasons why not; want %d and %d: %v", seconds, reasons, w.bound, len(w.pods)-w.bound, round.Reasons)
	}
	if want := float64(w.bound) / round.DurationSeconds; !near(round.Metrics[report.Throughput], want) {
		t.Errorf("%s is %v, want %v", report.Throughput, round.Metrics[report.Throughput], want)
	}
	// The client sends before the server receives, and sees a binding after that.
	var slowest time.Duration
	first, last := time.Time{}, time.Time{}
	for pod, bound := range bindings {
		slowest = max(slowest, bound.Sub(created[pod]))
		if first.IsZero() || created[pod].Before(first) {
			first = created[pod]
		}
		if bound.After(last) {
			last = bound
		}
	}
	if len(round.LatencyMillis) != 101 || !slices.IsSorted(round.LatencyMillis) {
		t.Fatalf("the latencies are not 101 rising numbers: %v", round.LatencyMillis)
	}
	if round.LatencyMillis[100] < 1000*slowest.Seconds() {
		t.Errorf("the slowest pod took %v ms, and its binding was received %v after its creation", round.LatencyMillis[100], slowest)
	}
	if round.DurationSeconds < last.Sub(first).Seconds() {
		t.Errorf("the round took %v s, and the bindings were received within %v", round.DurationSeconds, last.Sub(first))
	}
	for key, percent := range map[string]int{report.LatencyP50: 50, report.LatencyP90: 90, report.LatencyP99: 99} {
		if round.Metrics[key] != round.LatencyMillis[percent] {
			t.Errorf("%s is %v, and the latency at %d %% is %v", key, round.Metrics[key], percent, round.LatencyMillis[percent])
		}
	}
	return first
}

// checkCosts checks the number of requests against the log of the round's.
func checkCosts(t *testing.T, round report.Round, w *world, events []auditv1.Event, scheduler string) {
	t.Helper()
	writes := map[string]int{}
	total := 0
	for i := range events {
		event := &events[i]
		if event.User.Username != users[scheduler] || on(event) == "leases" {
			continue
		}
		if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, event.Verb) {
			writes[event.Verb+" "+on(event)]++
			total++
		}
	}
	if got := round.Metrics[report.WritesPerPod] * float64(w.bound); !near(got, float64(total)) {
		t.Errorf("%s says %v requests for %d pods, and the audit log has %d: %v", report.WritesPerPod, got, w.bound, total, writes)
	}
	if writes["create pods/binding"] != w.bound {
		t.Errorf("%d bindings for %d bound pods", writes["create pods/binding"], w.bound)
	}
	for _, key := range []string{report.CPUMillisPerPod, report.MemoryMiB} {
		if !(round.Metrics[key] > 0) {
			t.Errorf("%s is %v", key, round.Metrics[key])
		}
	}
}

// checkPlacement computes from nodes and pods what the placement is worth.
func checkPlacement(t *testing.T, round report.Round, w *world, shares bool) {
	t.Helper()
	used := map[string]float64{}
	violations, asked, whole := 0, 0.0, 0.0
	for _, pod := range w.others {
		used[pod.Spec.NodeName] += float64(pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
	}
	fronts, carts := []string{}, []string{}
	for name, pod := range w.pods {
		node := w.nodes[pod.Spec.NodeName]
		if node == nil {
			continue
		}
		used[node.Name] += float64(pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
		_, selectable := node.Labels["selectable"]
		switch group := name[:strings.LastIndex(name, "-")]; {
		case group == "web" && !selectable:
			violations++
		case group == "half":
			asked, whole = asked+0.5, whole+1
		case group == "part":
			asked, whole = asked+0.25, whole+1
		case strings.Contains(name, "front"):
			fronts = append(fronts, node.Name)
		case strings.Contains(name, "cart"):
			carts = append(carts, node.Name)
		}
	}
	want := map[string]float64{report.LabelViolations: float64(violations), report.GPUAllocated: 100 * asked / 4, report.GPUHeld: 100 * whole / 4}
	if shares {
		want[report.GPUHeld] = want[report.GPUAllocated]
	}
	var sum, squares float64
	for name, node := range w.nodes {
		part := 100 * used[name] / float64(node.Status.Allocatable.Cpu().MilliValue())
		sum, squares = sum+part, squares+part*part
	}
	n := float64(len(w.nodes))
	want[report.CPUImbalance] = math.Sqrt(squares/n - sum/n*sum/n)
	zone := func(node string) string { return w.nodes[node].Labels[corev1.LabelTopologyZone] }
	for _, from := range fronts {
		for _, to := range carts {
			share := 100 / float64(len(fronts)*len(carts))
			if from == to {
				want[report.CallsWithinNode] += share
			}
			if zone(from) == zone(to) {
				want[report.CallsWithinZone] += share
			}
		}
	}
	if len(fronts) != 2 || len(carts) != 2 {
		t.Fatalf("%d pods of the caller and %d of the callee have nodes, want 2 each", len(fronts), len(carts))
	}
	for key, value := range want {
		if got, ok := round.Metrics[key]; !ok || math.Abs(got-value) > 1e-6 {
			t.Errorf("%s is %v, want %v", key, got, value)
		}
	}
	if _, known := round.Metrics[report.GPUFragmented]; known != (want[report.GPUHeld] < 100) {
		t.Errorf("%s is known: %v, with %v %% held", report.GPUFragmented, known, want[report.GPUHeld])
	}
}

// testChurn: pods are deleted when their lifetime is over, and make room for others.
func (b *bench) testChurn(t *testing.T) {
	round := b.run(t, "testdata/churn.yaml", names.RandomScheduler)
	if got := round.Metrics[report.Unplaced]; got != 0 {
		t.Errorf("%v pods are not placed: %v", got, round.Reasons)
	}
	deleted := map[string]bool{}
	for _, event := range b.audit(t) {
		if on(&event) == "pods" && event.Verb == "delete" && strings.HasPrefix(event.ObjectRef.Name, "short-") {
			deleted[event.ObjectRef.Name] = true
		}
	}
	// The last 8 may be there when the last one is bound.
	if len(deleted) < 16 {
		t.Errorf("%d pods were deleted, and there is room for 8 of 24", len(deleted))
	}
	pods, err := b.Client.CoreV1().Pods(b.environment.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var requested resource.Quantity
	for i := range pods.Items {
		requested.Add(*pods.Items[i].Spec.Containers[0].Resources.Requests.Cpu())
	}
	if requested.Cmp(resource.MustParse("8")) > 0 {
		t.Errorf("%s CPUs are requested of 8", requested.String())
	}
}
