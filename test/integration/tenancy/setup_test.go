// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy attacks what manifests/overlays/tenancy installs: every way in
// which a pod may try to reach another tenant's node, against a real API server
// and the real scheduler with its shipped profile.
package tenancy

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// node returns a node of a tenant, labelled and tainted as manifests/README.md
// says; an empty tenant makes it anybody's.
func node(name, tenant string) corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("16"),
		corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	if tenant != "" {
		n.Labels[names.TenantNodeLabel] = tenant
		n.Spec.Taints = []corev1.Taint{{Key: names.TenantLabel, Value: tenant, Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

// untainted returns the node without its taint, as somebody may forget it.
func untainted(n corev1.Node) corev1.Node {
	n.Spec.Taints = nil
	return n
}

// addNode creates a node while the scheduler runs.
func addNode(t *testing.T, c *framework.Cluster, n corev1.Node) {
	t.Helper()
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), &n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addNamespace creates a namespace of a tenant, or of none.
func addNamespace(t *testing.T, c *framework.Cluster, name, tenant string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if tenant != "" {
		ns.Labels = map[string]string{names.TenantLabel: tenant}
	}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Pods are refused until the controller has made the account that they get.
	framework.WaitForCondition(t, framework.WaitTimeout, "the default ServiceAccount of "+name, func() (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, err
	})
}

// newPod returns a pod for Berth's profile.
func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: names.TenancyScheduler,
			Containers:    []corev1.Container{{Name: "c", Image: "x"}},
		},
	}
}

func createPod(t *testing.T, c *framework.Cluster, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return created
}

// tolerateAll tolerates every taint there is.
var tolerateAll = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

// tolerateTenants tolerates the taint of every tenant's nodes and no other.
var tolerateTenants = []corev1.Toleration{{
	Key: names.TenantLabel, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
}}

// pinTo returns the affinity by which the DaemonSet controller asks for a node.
func pinTo(nodeName string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName},
				}},
			}},
		},
	}}
}

// refusal is what the scheduler says of a tenant's node: it names the profile.
var refusal = fmt.Sprintf("(tenancy of profile %q: ask the administrator", names.TenancyScheduler)

// waitForRefusal waits until the scheduler has refused the pod because of a
// node's tenant, and has said so in an event.
func waitForRefusal(t *testing.T, c *framework.Cluster, namespace, name string) {
	t.Helper()
	c.WaitForPod(t, namespace, name, "refused because of tenancy", func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != "" {
			t.Fatalf("pod %s/%s got node %s", namespace, name, pod.Spec.NodeName)
		}
		condition := framework.PodScheduledCondition(pod)
		return condition != nil && condition.Reason == corev1.PodReasonUnschedulable && strings.Contains(condition.Message, refusal)
	})
	waitForEvent(t, c, namespace, name, "FailedScheduling", refusal)
}

// waitForEvent waits for a Warning of Berth's about a pod.
func waitForEvent(t *testing.T, c *framework.Cluster, namespace, pod, reason, text string) {
	t.Helper()
	var seen []string
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("event %s of pod %s/%s", reason, namespace, pod), func() (bool, error) {
		list, err := c.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		seen = nil
		for _, event := range list.Items {
			if event.Regarding.Name != pod || event.Type != corev1.EventTypeWarning || event.ReportingController != names.TenancyScheduler {
				continue
			}
			if event.Reason == reason && strings.Contains(event.Note, text) {
				return true, nil
			}
			seen = append(seen, event.Reason+": "+event.Note)
		}
		return false, fmt.Errorf("so far: %q", seen)
	})
}

// startBerth installs the tenancy overlay and runs its scheduler.
func startBerth(t *testing.T, c *framework.Cluster) *install.Scheduler {
	t.Helper()
	install.Apply(t, c, "overlays/tenancy")
	scheduler := install.Start(t, c)
	scheduler.WaitReady(t)
	return scheduler
}
