// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const enough = 1_000_000

// chain is front, which calls cart, which calls db.
func chain(replicas int, cpu int64) []ProblemService {
	return []ProblemService{
		{Name: "front", Replicas: replicas, MilliCPU: cpu, Calls: []string{"cart"}},
		{Name: "cart", Replicas: replicas, MilliCPU: cpu, Calls: []string{"db"}},
		{Name: "db", Replicas: replicas, MilliCPU: cpu},
	}
}

// grid is nodes a1, a2, b1, b2 with the same room.
func grid(free int64) []ProblemNode {
	return []ProblemNode{{"a1", "a", free}, {"a2", "a", free}, {"b1", "b", free}, {"b2", "b", free}}
}

func TestOptimum(t *testing.T) {
	tests := []struct {
		name    string
		problem Problem
		routing Routing
		level   Level
		want    float64
	}{
		{"room for all on one node", Problem{grid(300), chain(1, 100), false}, Uniform, Node, 1},
		{"room for two on a node: one of two calls", Problem{grid(200), chain(1, 100), false}, Uniform, Node, 0.5},
		{"room for one", Problem{grid(100), chain(1, 100), false}, Uniform, Node, 0},
		{"room for one, the zone counts", Problem{grid(100), chain(1, 100), false}, Uniform, Zone, 0.5},
		{"two of each on one node", Problem{grid(600), chain(2, 100), false}, Uniform, Node, 1},
		{"two of each, spread", Problem{grid(600), chain(2, 100), true}, Uniform, Node, 0.5},
		{"two of each, spread, same node", Problem{grid(600), chain(2, 100), true}, PreferSameNode, Node, 1},
		{"two of each, spread, same zone", Problem{grid(600), chain(2, 100), true}, PreferSameZone, Zone, 1},
		{"two of each, spread, room for two", Problem{grid(200), chain(2, 100), true}, PreferSameNode, Node, 0.5},
		// Three fronts and carts over two zones: two and one.
		{"three of each, spread", Problem{grid(300), chain(3, 100)[1:], true}, Uniform, Zone, (2*2.0/3 + 1.0/3) / 3},
		{"pods that need nothing", Problem{grid(0), chain(5, 0), false}, Uniform, Node, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Optimum(&tt.problem, tt.routing, tt.level, enough)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Share-tt.want) > 1e-9 {
				t.Errorf("got %v with %v, want %v", got.Share, got.Nodes, tt.want)
			}
		})
	}
}

func TestOptimumRefuses(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*Problem)
		routing Routing
		level   Level
		want    string
	}{
		{"a routing that does not exist", nil, "Nearest", Node, `"Nearest"`},
		{"a level that does not exist", nil, Uniform, "Rack", `"Rack"`},
		{"a Service that is not there", func(p *Problem) { p.Services[0].Calls = []string{"gone"} }, Uniform, Node, `service "front" calls service "gone"`},
		{"a Service twice", func(p *Problem) { p.Services[1].Name = "front" }, Uniform, Node, `service "front" is given twice`},
		{"a Service without pods", func(p *Problem) { p.Services[1].Replicas = 0 }, Uniform, Node, `service "cart"`},
		{"a negative request", func(p *Problem) { p.Services[1].MilliCPU = -1 }, Uniform, Node, `service "cart"`},
		{"a node twice", func(p *Problem) { p.Nodes[1].Name = "a1" }, Uniform, Node, `node "a1" is given twice`},
		{"a node without a zone", func(p *Problem) { p.Nodes[1].Zone = "" }, Uniform, Node, `node "a2" has no zone`},
		{"a node with less than nothing", func(p *Problem) { p.Nodes[1].MilliCPU = -1 }, Uniform, Node, `node "a2"`},
		{"no nodes", func(p *Problem) { p.Nodes = nil }, Uniform, Node, "no nodes"},
		{"no calls", func(p *Problem) { p.Services = p.Services[2:] }, Uniform, Node, "no Service calls another"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problem := Problem{Nodes: grid(300), Services: chain(1, 100)}
			if tt.change != nil {
				tt.change(&problem)
			}
			if _, err := Optimum(&problem, tt.routing, tt.level, enough); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Optimum(&Problem{Nodes: grid(100), Services: chain(2, 100)}, Uniform, Node, enough); !errors.Is(err, ErrInfeasible) {
		t.Errorf("six pods on four nodes with room for one each: got %v, want %v", err, ErrInfeasible)
	}
	if _, err := Optimum(&Problem{Nodes: grid(1000), Services: chain(2, 100)}, Uniform, Node, 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("three steps for six pods: got %v, want %v", err, ErrTooLarge)
	}
}

// TestOptimumIsTheBestOfAll compares the search with every placement there is, each
// counted by Graph.Share.
func TestOptimumIsTheBestOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	solved, infeasible := 0, 0
	for round := range 300 {
		problem := randomProblem(random)
		routing, level := Routings()[round%3], []Level{Node, Zone}[round/3%2]
		want, feasible := bestOfAll(t, problem, routing, level)
		got, err := Optimum(problem, routing, level, enough)
		if !feasible {
			infeasible++
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("round %d: got %v, %v for what does not fit: %+v", round, got, err, problem)
			}
			continue
		}
		solved++
		if err != nil || math.Abs(got.Share-want) > 1e-9 {
			t.Fatalf("round %d, %s within a %s: got %+v, %v; the best of all is %v: %+v", round, routing, level, got, err, want, problem)
		}
	}
	if solved < 200 || infeasible < 10 {
		t.Errorf("%d problems solved and %d infeasible: the dice do not try enough", solved, infeasible)
	}
}

// randomProblem has up to 6 pods and 4 nodes, some of them alike.
func randomProblem(random *rand.Rand) *Problem {
	problem := &Problem{Spread: random.IntN(2) == 0}
	for i := range 2 + random.IntN(3) {
		zone := string(rune('a' + random.IntN(2)))
		problem.Nodes = append(problem.Nodes, ProblemNode{fmt.Sprintf("%s%d", zone, i), zone, 100 * int64(1+random.IntN(4))})
	}
	pods := 0
	for i := 0; pods < 5; i++ {
		service := ProblemService{Name: fmt.Sprint("s", i), Replicas: 1 + random.IntN(2), MilliCPU: 50 * int64(1+random.IntN(3))}
		pods += service.Replicas
		for j := range i {
			if random.IntN(2) == 0 {
				service.Calls = append(service.Calls, fmt.Sprint("s", j))
			}
		}
		if i == 1 && len(service.Calls) == 0 {
			service.Calls = []string{"s0"}
		}
		problem.Services = append(problem.Services, service)
	}
	return problem
}

// bestOfAll returns the best share of all placements, and whether there is one.
func bestOfAll(t *testing.T, problem *Problem, routing Routing, level Level) (best float64, feasible bool) {
	t.Helper()
	var deployments []appsv1.Deployment
	var services []corev1.Service
	var pods []corev1.Pod
	var cpu []int64
	for _, s := range problem.Services {
		var addresses []string
		for _, callee := range s.Calls {
			addresses = append(addresses, callee+":80")
		}
		deployments = append(deployments, deployment("shop", s.Name, addresses...))
		services = append(services, service("shop", s.Name))
		pods = append(pods, podsOn(s.Name, make([]string, s.Replicas)...)...)
		for range s.Replicas {
			cpu = append(cpu, s.MilliCPU)
		}
	}
	graph, err := Read(deployments, services)
	if err != nil {
		t.Fatal(err)
	}
	placement := Placement{Pods: pods}
	zones := map[string]bool{}
	free := map[string]int64{}
	for _, node := range problem.Nodes {
		placement.Nodes = append(placement.Nodes, nodes(node.Name)...)
		zones[node.Zone], free[node.Name] = true, node.MilliCPU
	}
	even := func() bool {
		counts := map[string]map[string]int{}
		for i := range pods {
			app := pods[i].Labels["app"]
			if counts[app] == nil {
				counts[app] = map[string]int{}
			}
			counts[app][pods[i].Spec.NodeName[:1]]++
		}
		for _, perZone := range counts {
			least, most := math.MaxInt, 0
			for zone := range zones {
				least, most = min(least, perZone[zone]), max(most, perZone[zone])
			}
			if most-least > 1 {
				return false
			}
		}
		return true
	}
	var try func(int)
	try = func(i int) {
		if i == len(pods) {
			if problem.Spread && !even() {
				return
			}
			share, err := graph.Share(placement, routing)
			if err != nil {
				t.Fatal(err)
			}
			feasible = true
			best = max(best, map[Level]float64{Node: share.WithinNode, Zone: share.WithinZone}[level])
			return
		}
		for _, node := range problem.Nodes {
			if free[node.Name] >= cpu[i] {
				free[node.Name] -= cpu[i]
				pods[i].Spec.NodeName = node.Name
				try(i + 1)
				free[node.Name] += cpu[i]
			}
		}
	}
	try(0)
	return best, feasible
}
