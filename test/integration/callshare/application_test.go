// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

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
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	a := application{name: name, replicas: replicas}
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return a
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(raw.Raw) == 0 {
			continue // comments only
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		switch object := object.(type) {
		case *appsv1.Deployment:
			a.deployments = append(a.deployments, *object)
		case *corev1.Service:
			a.services = append(a.services, *object)
		}
	}
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
