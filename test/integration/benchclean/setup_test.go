// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package benchclean shows that a benchmark leaves a cluster as it was: when it ends,
// when it fails, and when it is killed and "bench clean" comes after it. Each time
// every object of the cluster is compared with what there was before.
package benchclean

import (
	"flag"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/environment"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestMain lets all tests run side by side, whatever the number of processors: they
// wait for controllers most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	m.Run()
}

// strangerID has the form of a run's id, but no run has it.
const strangerID = "0a1b2c3d"

// strangers are objects of the cluster's user that look like those of a benchmark:
// each has either a name or a label of one, and none has both. Of the DaemonSets one
// puts its pods on every node, whatever its taints, and one on every node with Linux.
const strangers = `
apiVersion: v1
kind: Namespace
metadata: {name: berth-bench-` + strangerID + `}
---
apiVersion: v1
kind: Namespace
metadata: {name: labeled, labels: {berth.dev/bench: ` + strangerID + `}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: keep, namespace: berth-bench-` + strangerID + `, labels: {berth.dev/bench: ` + strangerID + `}}
---
apiVersion: v1
kind: Service
metadata: {name: keep, namespace: berth-bench-` + strangerID + `}
spec: {ports: [{port: 80}], selector: {app: keep}}
---
apiVersion: v1
kind: Pod
metadata: {name: keep, namespace: berth-bench-` + strangerID + `}
spec: {nodeName: berth-bench-` + strangerID + `-0, containers: [{name: main, image: example.com/keep}]}
---
apiVersion: v1
kind: Event
metadata: {name: keep, namespace: default}
involvedObject: {apiVersion: v1, kind: Node, name: berth-bench-` + strangerID + `-0}
reason: Keep
message: somebody else's
type: Normal
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere, namespace: kube-system}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: example.com/everywhere}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: linux, namespace: kube-system}
spec:
  selector: {matchLabels: {app: linux}}
  template:
    metadata: {labels: {app: linux}}
    spec:
      nodeSelector: {kubernetes.io/os: linux}
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: example.com/linux}]
`

// strangeNodes are nodes of the cluster's user of the same sort.
func strangeNodes() []corev1.Node {
	nodes := localcluster.FakeNodes(3)
	for i, name := range []string{"berth-bench-mine", "berth-bench-" + strangerID + "-0", "labeled"} {
		nodes[i].Name = name
		nodes[i].Labels[corev1.LabelHostname] = name
	}
	nodes[2].Labels[names.BenchLabel] = strangerID
	return nodes
}

// start starts a cluster that a user has filled, with a scheduler for its DaemonSets.
func start(t *testing.T) (*framework.Cluster, snapshot) {
	t.Helper()
	c := framework.Start(t, framework.Options{
		NodeCount: 2,
		Nodes:     strangeNodes(),
		// How often the controller-manager looks after nodes, and writes the last event
		// about one that has gone. The default is five seconds.
		ControllerManagerArgs: []string{"--node-monitor-period=1s"},
	})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.Apply(t, strangers)
	for _, name := range []string{"everywhere", "linux"} {
		framework.WaitForCondition(t, framework.WaitTimeout, "the DaemonSet "+name+" to be on all nodes", func() (bool, error) {
			set, err := c.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && set.Status.NumberReady == 5, err
		})
	}
	return c, settled(t, c)
}

// fill does to an environment what a benchmark does: nodes, Services, pods that have a node
// and pods that want one.
func fill(t *testing.T, e *environment.Environment, nodes, pods int) {
	t.Helper()
	if err := e.CreateNodes(t.Context(), localcluster.FakeNodes(nodes)); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("service-%d", i)},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": fmt.Sprintf("app-%d", i)}},
		}
		e.AdoptService(service)
		if _, err := e.Client().CoreV1().Services(e.Namespace()).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		placed := planned(fmt.Sprintf("placed-%d", i), fmt.Sprintf("app-%d", i))
		placed.Spec.NodeName = fmt.Sprintf("node-%d", i%nodes)
		for _, pod := range []*corev1.Pod{placed, planned(fmt.Sprintf("pending-%d", i), fmt.Sprintf("app-%d", i))} {
			e.Adopt(pod)
			if _, err := e.Client().CoreV1().Pods(e.Namespace()).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// planned is a pod of a plan, for the stock scheduler.
func planned(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
	}
}
