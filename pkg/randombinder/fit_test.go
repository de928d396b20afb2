// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/pkg/messages"
)

func TestWhichNodesAdmitAPod(t *testing.T) {
	const noSchedule, noExecute, prefer = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule
	hostnameIn := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	zoneNotIn := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}}}}

	tests := []struct {
		name string
		node *corev1.Node
		pod  *corev1.Pod
		// want is by fit: constraints, resources, none.
		want [3]bool
	}{
		{"a plain pod on a ready node", readyNode("n"), pendingPodObject("p"), [3]bool{true, true, true}},
		{"the node is not ready", readyNode("n", withReady(corev1.ConditionFalse)), pendingPodObject("p"), [3]bool{false, false, false}},
		{"the node's readiness is unknown", readyNode("n", withReady(corev1.ConditionUnknown)), pendingPodObject("p"), [3]bool{false, false, false}},
		{"the node has no Ready condition yet", readyNode("n", func(n *corev1.Node) { n.Status.Conditions = nil }), pendingPodObject("p"), [3]bool{false, false, false}},
		{"the node is not ready and the pod tolerates everything", readyNode("n", withReady(corev1.ConditionFalse)), pendingPodObject("p", withToleration(corev1.Toleration{Operator: corev1.TolerationOpExists})), [3]bool{false, false, false}},
		{"the node is cordoned", readyNode("n", withCordon), pendingPodObject("p"), [3]bool{false, false, true}},
		{"the node is cordoned and the pod tolerates everything", readyNode("n", withCordon), pendingPodObject("p", withToleration(corev1.Toleration{Operator: corev1.TolerationOpExists})), [3]bool{false, false, true}},

		{"NoSchedule, no toleration", readyNode("n", withTaint("k", "v", noSchedule)), pendingPodObject("p"), [3]bool{false, false, true}},
		{"NoExecute, no toleration", readyNode("n", withTaint("k", "v", noExecute)), pendingPodObject("p"), [3]bool{false, false, true}},
		{"PreferNoSchedule, no toleration", readyNode("n", withTaint("k", "v", prefer)), pendingPodObject("p"), [3]bool{true, true, true}},
		{"NoSchedule, same key, value and effect tolerated", readyNode("n", withTaint("k", "v", noSchedule)), pendingPodObject("p", withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: noSchedule})), [3]bool{true, true, true}},
		{"NoSchedule, another value tolerated", readyNode("n", withTaint("k", "v", noSchedule)), pendingPodObject("p", withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "w", Effect: noSchedule})), [3]bool{false, false, true}},
		{"NoSchedule, any value tolerated for any effect", readyNode("n", withTaint("k", "v", noSchedule)), pendingPodObject("p", withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})), [3]bool{true, true, true}},
		{"NoExecute, only NoSchedule tolerated", readyNode("n", withTaint("k", "v", noExecute)), pendingPodObject("p", withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: noSchedule})), [3]bool{false, false, true}},
		{"NoExecute, tolerated for a time", readyNode("n", withTaint("k", "v", noExecute)), pendingPodObject("p", withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: noExecute, TolerationSeconds: new(int64)})), [3]bool{true, true, true}},
		{"two taints, one tolerated", readyNode("n", withTaint("k", "v", noSchedule), withTaint("l", "", noSchedule)), pendingPodObject("p", withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})), [3]bool{false, false, true}},
		{"an empty key tolerates every taint", readyNode("n", withTaint("k", "v", noSchedule), withTaint("l", "", noExecute)), pendingPodObject("p", withToleration(corev1.Toleration{Operator: corev1.TolerationOpExists})), [3]bool{true, true, true}},

		{"nodeSelector matches", readyNode("n", withLabel("device", "gpu")), pendingPodObject("p", withNodeSelector("device", "gpu")), [3]bool{true, true, true}},
		{"nodeSelector names another value", readyNode("n", withLabel("device", "fpga")), pendingPodObject("p", withNodeSelector("device", "gpu")), [3]bool{false, false, true}},
		{"nodeSelector names a missing label", readyNode("n"), pendingPodObject("p", withNodeSelector("device", "gpu")), [3]bool{false, false, true}},
		{"affinity to the node's name, as a DaemonSet pod has", readyNode("n"), pendingPodObject("p", withRequiredAffinity(hostnameIn("n"))), [3]bool{true, true, true}},
		{"affinity to another node's name", readyNode("n"), pendingPodObject("p", withRequiredAffinity(hostnameIn("m"))), [3]bool{false, false, true}},
		{"one of two affinity terms matches", readyNode("n", withLabel("zone", "b")), pendingPodObject("p", withRequiredAffinity(hostnameIn("m"), zoneNotIn)), [3]bool{true, true, true}},
		{"no affinity term matches", readyNode("n", withLabel("zone", "a")), pendingPodObject("p", withRequiredAffinity(hostnameIn("m"), zoneNotIn)), [3]bool{false, false, true}},
		{"nodeSelector matches and affinity does not", readyNode("n", withLabel("device", "gpu")), pendingPodObject("p", withNodeSelector("device", "gpu"), withRequiredAffinity(hostnameIn("m"))), [3]bool{false, false, true}},
		{"an affinity that cannot be parsed", readyNode("n"), pendingPodObject("p", withRequiredAffinity(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}})), [3]bool{false, false, true}},

		{"requests exactly what there is", readyNode("n", withAllocatable("cpu", "2", "pods", "1")), pendingPodObject("p", withRequests("cpu", "2")), [3]bool{true, true, true}},
		{"requests a millicore more than there is", readyNode("n", withAllocatable("cpu", "2", "pods", "1")), pendingPodObject("p", withRequests("cpu", "2001m")), [3]bool{true, false, true}},
		{"requests a resource that the node does not have", readyNode("n"), pendingPodObject("p", withRequests("example.com/dongle", "1")), [3]bool{true, false, true}},
		{"requests none of a resource that the node does not have", readyNode("n"), pendingPodObject("p", withRequests("example.com/dongle", "0")), [3]bool{true, true, true}},
		{"the node takes no pods", readyNode("n", withAllocatable("cpu", "2", "pods", "0")), pendingPodObject("p"), [3]bool{true, false, true}},
		{"an init container asks for more than there is", readyNode("n"), pendingPodObject("p", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: resources("memory", "9Gi")}}}
		}), [3]bool{true, false, true}},
		{"overhead makes it too much", readyNode("n"), pendingPodObject("p", withRequests("cpu", "4"), func(p *corev1.Pod) {
			p.Spec.Overhead = resources("cpu", "1m")
		}), [3]bool{true, false, true}},
		{"pod-level requests make it too much", readyNode("n"), pendingPodObject("p", func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("cpu", "5")}
		}), [3]bool{true, false, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, fit := range []Fit{FitConstraints, FitResources, FitNone} {
				c := newTestCluster(fit, tt.node).applyAndChoose(t, tt.pod)
				if got := c.node != ""; got != tt.want[i] {
					t.Errorf("--fit=%s: admitted = %v, want %v (message %q)", fit, got, tt.want[i], c.message)
				}
			}
		})
	}
}

func TestUnschedulableMessage(t *testing.T) {
	tests := []struct {
		name  string
		fit   Fit
		nodes []*corev1.Node
		pod   *corev1.Pod
		want  string
	}{
		{
			name: "there are no nodes",
			fit:  FitConstraints,
			pod:  pendingPodObject("p"),
			want: "0/0 nodes are available: the cluster has no nodes (add one)",
		},
		{
			name: "every cause is counted, and has a way out",
			fit:  FitResources,
			nodes: []*corev1.Node{
				readyNode("cordoned-1", withCordon, withLabel("disk", "ssd")),
				readyNode("cordoned-2", withCordon),
				readyNode("full", withAllocatable("cpu", "1", "pods", "0"), withLabel("disk", "ssd")),
				readyNode("not-ready", withReady(corev1.ConditionUnknown)),
				readyNode("tainted", withTaint("team", "db", corev1.TaintEffectNoSchedule)),
				readyNode("tainted-again", withTaint("team", "db", corev1.TaintEffectNoSchedule)),
				readyNode("without-label"),
			},
			pod: pendingPodObject("p", withNodeSelector("disk", "ssd"), withRequests("cpu", "2")),
			want: "0/7 nodes are available (--fit=resources): " +
				"2 node(s) cordoned (kubectl uncordon); " +
				"1 node(s) not matching the pod's nodeSelector or required node affinity (label a node, or recreate the pod); " +
				"1 node(s) not ready (kubectl describe node says why); " +
				"2 node(s) with taint team=db:NoSchedule that the pod does not tolerate (add to spec.tolerations, or remove the taint); " +
				"1 node(s) with too little cpu left (free or add some, or recreate the pod with smaller requests)",
		},
		{
			name:  "only readiness counts for none",
			fit:   FitNone,
			nodes: []*corev1.Node{readyNode("a", withReady(corev1.ConditionFalse), withCordon)},
			pod:   pendingPodObject("p"),
			want:  "0/1 nodes are available (--fit=none): 1 node(s) not ready (kubectl describe node says why)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestCluster(tt.fit, tt.nodes...).applyAndChoose(t, tt.pod)
			if diff := cmp.Diff(tt.want, c.message); diff != "" {
				t.Errorf("message (-want,+got):\n%s", diff)
			}
			if c.node != "" {
				t.Errorf("chose node %s, want none", c.node)
			}
		})
	}
}

// TestNotesNeverExceedAnEvent: the API server refuses a longer one, and the pod's
// owner would not be told.
func TestNotesNeverExceedAnEvent(t *testing.T) {
	long := strings.Repeat("x", 63)
	var nodes []*corev1.Node
	for _, prefix := range []string{"a", "b", "c", "d"} {
		// The longest taints that the API accepts.
		nodes = append(nodes, readyNode(prefix, withTaint(prefix+strings.Repeat("y", 252)+"/"+long, long, corev1.TaintEffectNoSchedule)))
	}
	pod := pendingPodObject("p")
	c := newTestCluster(FitConstraints, nodes...).applyAndChoose(t, pod)
	_, ctx := ktesting.NewTestContext(t)
	recorder := events.NewFakeRecorder(2)
	b := newBinder(newFakeCluster(t, pod), recorder, testOptions(FitConstraints), newRand(testSeed))
	t.Cleanup(b.queue.ShutDown)
	b.reportUnschedulable(ctx, pod, c.message)
	b.event(pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", strings.Repeat("é", messages.Limit))
	for range 2 {
		// The recorder puts type and reason before the note.
		text, found := strings.CutPrefix(<-recorder.Events, "Warning FailedScheduling ")
		if !found || len(text) > messages.Limit || !utf8.ValidString(text) {
			t.Errorf("note has %d bytes, want at most %d, whole characters: %q", len(text), messages.Limit, text)
		}
	}
}
