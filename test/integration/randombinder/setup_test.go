// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package randombinder runs random-scheduler, with the rights that its manifests
// grant and no more, against a real API server.
package randombinder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// createWorkers is how many pods a test creates at a time.
const createWorkers = 8

// shared is the control plane of [TestRandomScheduler], whose API server writes an audit
// log, and began is when the subtest under way got it.
var (
	shared *framework.Shared
	began  time.Time
)

// TestRandomScheduler runs every test that needs a control plane, on one with the random
// scheduler's manifests. What takes them away is the last.
func TestRandomScheduler(t *testing.T) {
	shared = framework.NewShared(t, framework.Options{Audit: true}, func(c *framework.Cluster) { c.ApplyManifests(t, "manifests/random-scheduler") })
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"a pending pod is woken, and says why it waits", pendingPodIsWokenAndSaysWhyItWaits},
		{"pods that are not its own stay pending", podsThatAreNotItsOwnStayPending},
		{"lost answers never bind twice", lostAnswersNeverBindTwice},
		{"it yields to others", binderYieldsToOthers},
		{"a missing right is named at start", missingRightIsNamedAtStart},
		{"the Deployment runs as it says", deploymentRunsAsItSays},
		{"a killed scheduler loses no pod", killedSchedulerLosesNoPod},
		{"a restart of the API server loses no pod", apiServerRestartLosesNoPod},
		{"two processes bind each pod once", twoBindEachPodOnce},
		{"its removal leaves the namespace and the running pods", removalLeavesTheNamespaceAndTheRunningPods},
	} {
		t.Run(tt.name, tt.run)
	}
}

// start returns the control plane with these nodes.
func start(t *testing.T, nodes []corev1.Node) *framework.Cluster {
	t.Helper()
	c := shared.Use(t, nodes)
	began = time.Now()
	return c
}

// launch starts random-scheduler with its own credential and returns at once. It
// serves nothing unless args say so.
func launch(t *testing.T, c *framework.Cluster, args ...string) *framework.Process {
	t.Helper()
	return framework.StartProcess(t, framework.RandomScheduler, append([]string{
		"--kubeconfig=" + c.ServiceAccountKubeconfig(t, names.Namespace, names.RandomScheduler),
		"--kube-api-qps=0",
		"--bind-address=",
		"-v=2",
	}, args...)...)
}

// run is launch, and waits until random-scheduler binds pods.
func run(t *testing.T, c *framework.Cluster, args ...string) *framework.Process {
	t.Helper()
	p := launch(t, c, args...)
	p.WaitForOutput(t, framework.WaitTimeout, "Started binding")
	return p
}

// newPod returns a pod for random-scheduler in namespace default.
func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := framework.Pod(metav1.NamespaceDefault, name, names.RandomScheduler)
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// tolerateAll keeps taints, the node controller's for example, from deciding.
func tolerateAll(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func inNamespace(namespace string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = namespace }
}

func create(t *testing.T, c *framework.Cluster, pod *corev1.Pod) {
	t.Helper()
	// A namespace's ServiceAccount comes a moment after it.
	framework.WaitForCondition(t, framework.WaitTimeout, "pod "+pod.Name+" to be accepted", func() (bool, error) {
		_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), err
	})
}

// createMany creates pods name-0 to name-(n-1), several at a time.
func createMany(t *testing.T, c *framework.Cluster, n int, name string, changes ...func(*corev1.Pod)) {
	t.Helper()
	create(t, c, newPod(name+"-0", changes...))
	if err := createRange(t.Context(), c, 1, n, name, changes...); err != nil {
		t.Fatalf("creating pods: %v", err)
	}
}

// createRange creates pods name-from to name-(to-1); it may run beside the test.
func createRange(ctx context.Context, c *framework.Cluster, from, to int, name string, changes ...func(*corev1.Pod)) error {
	var mu sync.Mutex
	var failed error
	workqueue.ParallelizeUntil(ctx, createWorkers, to-from, func(i int) {
		pod := newPod(fmt.Sprintf("%s-%d", name, from+i), changes...)
		// A test may have the API server away for a while.
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, framework.WaitTimeout, true, func(ctx context.Context) (bool, error) {
			_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err), nil
		})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, fmt.Errorf("pod %s: %w", pod.Name, err))
		}
	})
	return failed
}

// list returns the pods of a namespace, all for the empty one.
func list(t *testing.T, c *framework.Cluster, namespace string) []corev1.Pod {
	t.Helper()
	pods, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// waitAllBound waits until n pods of the namespace have a node.
func waitAllBound(t *testing.T, c *framework.Cluster, namespace string, n int) {
	t.Helper()
	framework.WaitForCondition(t, 5*framework.WaitTimeout, fmt.Sprintf("%d pods to have a node", n), func() (bool, error) {
		pods, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!=", ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		if len(pods.Items) < n {
			return false, fmt.Errorf("%d have one", len(pods.Items))
		}
		return true, nil
	})
}

// binding is one request of the audit log that asked for a pod to be bound.
type binding struct {
	pod, node, user string
	code            int
}

// bindings returns every Binding that the API server was asked for since the test began.
func bindings(t *testing.T, c *framework.Cluster) []binding {
	t.Helper()
	var found []binding
	for _, event := range c.AuditEvents(t, func(event *auditv1.Event) bool {
		return event.RequestReceivedTimestamp.After(began) && event.Verb == "create" && event.ObjectRef != nil && event.ObjectRef.Resource == "pods" && event.ObjectRef.Subresource == "binding"
	}) {
		found = append(found, binding{pod: event.ObjectRef.Namespace + "/" + event.ObjectRef.Name, user: event.User.Username})
		b := &found[len(found)-1]
		// Of a request whose sender was killed neither need be there.
		if event.RequestObject != nil {
			var request corev1.Binding
			if err := json.Unmarshal(event.RequestObject.Raw, &request); err != nil {
				t.Fatalf("a Binding of the audit log: %v", err)
			}
			b.node = request.Target.Name
		}
		if event.ResponseStatus != nil {
			b.code = int(event.ResponseStatus.Code)
		}
	}
	return found
}

// requireBoundOnce fails unless the audit log has exactly one successful Binding
// for each of the pods, to the node that it has.
func requireBoundOnce(t *testing.T, c *framework.Cluster, pods []corev1.Pod) {
	t.Helper()
	for name, n := range requireNotBoundTwice(t, c, pods) {
		if n != 1 {
			t.Errorf("pod %s: %d Bindings succeeded, want 1", name, n)
		}
	}
}

// requireNotBoundTwice fails unless each of the pods has a node and at most one
// successful Binding, and returns how many it has. None is what the audit log
// shows of a Binding whose sender was killed before the answer.
func requireNotBoundTwice(t *testing.T, c *framework.Cluster, pods []corev1.Pod) map[string]int {
	t.Helper()
	succeeded := map[string]int{}
	for i := range pods {
		succeeded[pods[i].Namespace+"/"+pods[i].Name] = 0
	}
	nodes := map[string]string{}
	for _, b := range bindings(t, c) {
		if _, ours := succeeded[b.pod]; ours && b.code < 300 {
			succeeded[b.pod]++
			nodes[b.pod] = b.node
		}
	}
	for i := range pods {
		name, node := pods[i].Namespace+"/"+pods[i].Name, pods[i].Spec.NodeName
		if node == "" || succeeded[name] > 1 || succeeded[name] == 1 && nodes[name] != node {
			t.Errorf("pod %s: %d Bindings succeeded, the last to %q, and its node is %q", name, succeeded[name], nodes[name], node)
		}
	}
	return succeeded
}

// scheduledEvents returns the events Scheduled of pods in namespace default.
func scheduledEvents(ctx context.Context, c *framework.Cluster) ([]corev1.Event, error) {
	events, err := c.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod,reason=Scheduled"})
	if err != nil {
		return nil, err
	}
	return events.Items, nil
}
