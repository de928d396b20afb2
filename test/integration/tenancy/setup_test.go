// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy attacks what manifests/overlays/tenancy installs: every way in
// which a pod may try to reach another tenant's node, against a real API server
// and the real scheduler with its shipped profile.
package tenancy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// node returns a node of a tenant, labeled and tainted as manifests/README.md
// says; an empty tenant makes it anybody's.
func node(name, tenant string) corev1.Node {
	n := framework.Node(name, nil)
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

// shared is the control plane of [TestTenancy], with the tenancy overlay.
var shared *framework.Shared

// TestTenancy runs the tests that need the overlay and its scheduler, on one control plane.
// What takes policies away is the last.
func TestTenancy(t *testing.T) {
	shared = framework.NewShared(t, framework.Options{}, func(c *framework.Cluster) { install.Apply(t, c, "overlays/tenancy") })
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"the scheduler refuses", schedulerRefuses},
		{"changed labels take effect", changedLabelsTakeEffect},
		{"tainted before labeled", taintedBeforeLabeled},
		{"violations are reported", violationsAreReported},
	} {
		t.Run(tt.name, tt.run)
	}
}

// start returns the control plane with these nodes and the overlay's scheduler.
func start(t *testing.T, nodes ...corev1.Node) (*framework.Cluster, *framework.Scheduler) {
	t.Helper()
	c := shared.Use(t, nodes)
	scheduler := install.Start(t, c)
	scheduler.WaitReady(t)
	return c, scheduler
}

// addNamespace creates a namespace of a tenant, or of none. One that a subtest before has
// left gets that tenant.
func addNamespace(t *testing.T, c *framework.Cluster, name, tenant string) {
	t.Helper()
	labels := map[string]string{}
	if tenant != "" {
		labels[names.TenantLabel] = tenant
	}
	left, err := c.Client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.CreateNamespace(t, name, labels)
		return
	}
	if err == nil {
		left.Labels = labels
		_, err = c.Client.CoreV1().Namespaces().Update(t.Context(), left, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newPod returns a pod for Berth's profile.
func newPod(namespace, name string) *corev1.Pod {
	return framework.Pod(namespace, name, names.TenancyScheduler)
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

// refusals are what the scheduler says where tenancy keeps nodes from a pod: if no other node
// is left, it names the profile.
var refusals = []string{
	fmt.Sprintf("(tenancy of profile %q: ask the administrator", names.TenancyScheduler),
	"; nodes that tenancy keeps from the pod are not counted",
}

// waitForRefusal waits until the scheduler has refused the pod because of a
// node's tenant, and has said so in an event.
func waitForRefusal(t *testing.T, c *framework.Cluster, namespace, name string) {
	t.Helper()
	said := ""
	c.WaitForPod(t, namespace, name, "refused because of tenancy", func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != "" {
			t.Fatalf("pod %s/%s got node %s", namespace, name, pod.Spec.NodeName)
		}
		condition := framework.PodScheduledCondition(pod)
		if condition == nil || condition.Reason != corev1.PodReasonUnschedulable {
			return false
		}
		at := slices.IndexFunc(refusals, func(refusal string) bool { return strings.Contains(condition.Message, refusal) })
		if at >= 0 {
			said = refusals[at]
		}
		return at >= 0
	})
	c.WaitForEvent(t, namespace, name, "FailedScheduling", said)
}
