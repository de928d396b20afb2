// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
)

// application is Deployments and their Services, as a manifest has them.
type application struct {
	name        string
	replicas    int
	deployments []appsv1.Deployment
	services    []corev1.Service
}

// readApplication reads a manifest; every Deployment gets the same replicas.
func readApplication(t *testing.T, name, path string, replicas int) application {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	deployments, services, err := callgraph.Manifests(content)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return application{name, replicas, deployments, services}
}

// in returns the application in a namespace, and who calls whom. A Deployment that
// is behind no Service, since nobody calls it, is given a headless one: who calls
// can be named then, as who is called can.
func (a application) in(t *testing.T, namespace string) (application, *callgraph.Graph) {
	t.Helper()
	a.deployments, a.services = slices.Clone(a.deployments), slices.Clone(a.services)
	for i := range a.deployments {
		a.deployments[i].Namespace = namespace
	}
	for i := range a.services {
		a.services[i].Namespace = namespace
	}
	for _, workload := range a.graph(t).Workloads {
		if len(workload.Behind) == 0 {
			a.services = append(a.services, corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workload.Deployment.Name},
				Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: a.deployment(t, workload.Deployment.Name).Spec.Selector.MatchLabels},
			})
		}
	}
	return a, a.graph(t)
}

// graph reads who calls whom.
func (a application) graph(t *testing.T) *callgraph.Graph {
	t.Helper()
	graph, err := callgraph.Read(a.deployments, a.services)
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

func (a application) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	i := slices.IndexFunc(a.deployments, func(d appsv1.Deployment) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("there is no Deployment %s", name)
	}
	return &a.deployments[i]
}

// inOrder returns the application with its Deployments in another order: that of
// the manifest first, the reverse of it next, and then shuffled ones.
func (a application) inOrder(n int) application {
	a.deployments = slices.Clone(a.deployments)
	switch n {
	case 0:
	case 1:
		slices.Reverse(a.deployments)
	default:
		random := rand.New(rand.NewPCG(0, uint64(n)))
		random.Shuffle(len(a.deployments), func(i, j int) { a.deployments[i], a.deployments[j] = a.deployments[j], a.deployments[i] })
	}
	return a
}

// pods returns the pods of all Deployments, in their order: those of one after the
// other, one in each zone, on the nodes of a pool.
func (a application) pods(p pool) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range a.deployments {
		d := &a.deployments[i]
		for replica := range a.replicas {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: fmt.Sprintf("%s-%d", d.Name, replica), Labels: d.Spec.Template.Labels},
				Spec:       *d.Spec.Template.Spec.DeepCopy(),
			}
			// The application's own are not part of the measurement.
			pod.Spec.ServiceAccountName = ""
			pod.Spec.NodeSelector = map[string]string{poolLabel: p.name}
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: d.Spec.Selector,
			}}
			pods = append(pods, pod)
		}
	}
	return pods
}

// milliCPU is what the pods of a Deployment request, each.
func milliCPU(d *appsv1.Deployment) int64 {
	total := int64(0)
	for i := range d.Spec.Template.Spec.Containers {
		total += d.Spec.Template.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return total
}

// problem is how to place the application on nodes.
func (a application) problem(t *testing.T, nodes []callgraph.ProblemNode, replicas int) *callgraph.Problem {
	t.Helper()
	_, graph := a.in(t, "any")
	deploymentOf := map[string]string{}
	for i := range graph.Workloads {
		for _, service := range graph.Workloads[i].Behind {
			deploymentOf[service.Name] = graph.Workloads[i].Deployment.Name
		}
	}
	problem := &callgraph.Problem{Nodes: nodes, Spread: true}
	for i := range graph.Workloads {
		service := callgraph.ProblemService{Name: a.deployments[i].Name, Replicas: replicas, MilliCPU: milliCPU(&a.deployments[i])}
		for _, callee := range graph.Workloads[i].Calls {
			service.Calls = append(service.Calls, deploymentOf[callee.Name])
		}
		problem.Services = append(problem.Services, service)
	}
	return problem
}

// solve returns the best share of calls within a node that any placement has.
func solve(t *testing.T, problem *callgraph.Problem, routing callgraph.Routing) float64 {
	t.Helper()
	const steps = 50_000_000 // under a minute, and many times what is needed
	solution, err := callgraph.Optimum(problem, routing, callgraph.Node, steps)
	if err != nil {
		t.Fatal(err)
	}
	return solution.Share
}

// optimum is solve under PreferSameNode, zone by zone: with as many replicas as
// zones, every zone has one pod of each Deployment, and no call is answered on the
// caller's node by a pod of another zone.
func (a application) optimum(t *testing.T, p pool) float64 {
	t.Helper()
	if a.replicas != len(p.free) {
		t.Fatalf("%d replicas in %d zones: the zones are not alike", a.replicas, len(p.free))
	}
	sum := 0.0
	for zone := range p.free {
		sum += solve(t, a.problem(t, p.problemNodes(zone), 1), callgraph.PreferSameNode)
	}
	return sum / float64(len(p.free))
}
