// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

const (
	nodeTenantKey      = "example.node-restriction.kubernetes.io/tenant"
	nodeTaintKey       = "example.com/tenant-taint"
	namespaceTenantKey = "example.com/tenant"
)

// newProfile builds a profile with the plugin. Its informers do not run yet.
func newProfile(tb testing.TB, args *config.LabelPresenceArgs, opts schedtest.Options) *schedtest.Profile {
	tb.Helper()
	if args.DaemonSets == "" {
		args.DaemonSets = config.DaemonSetsExempt
	}
	profile, err := schedtest.NewProfile(tb.Context(), tb, Name, New, args, opts)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return profile
}

// startProfile builds a profile with the plugin and runs its informers.
func startProfile(tb testing.TB, args *config.LabelPresenceArgs, opts schedtest.Options) *schedtest.Profile {
	tb.Helper()
	profile := newProfile(tb, args, opts)
	profile.Start(tb.Context(), tb)
	return profile
}

func makeRule(presence bool, labels ...string) config.LabelPresenceRule {
	return config.LabelPresenceRule{Labels: labels, Presence: &presence}
}

// forPods restricts a rule to pods with the label app=value.
func forPods(rule config.LabelPresenceRule, app string) config.LabelPresenceRule {
	rule.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	return rule
}

// inNamespaces restricts a rule to namespaces with the label team=value.
func inNamespaces(rule config.LabelPresenceRule, team string) config.LabelPresenceRule {
	rule.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	return rule
}

func makeTenancy(tenants config.TenantPolicy, exempt ...string) *config.LabelPresenceTenancy {
	return &config.LabelPresenceTenancy{
		NodeLabelKey:      nodeTenantKey,
		NodeTaintKey:      nodeTaintKey,
		NamespaceLabelKey: namespaceTenantKey,
		Tenants:           tenants,
		ExemptNamespaces:  exempt,
	}
}

func makeNode(name string, labels map[string]string) *corev1.Node {
	node := st.MakeNode().Name(name).Obj()
	node.Labels = labels
	return node
}

// tainted returns the node with the taint of tenants' nodes.
func tainted(node *corev1.Node, value string) *corev1.Node {
	node = node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints,
		corev1.Taint{Key: "example.com/other", Value: "x", Effect: corev1.TaintEffectNoExecute},
		corev1.Taint{Key: nodeTaintKey, Value: value, Effect: corev1.TaintEffectNoSchedule})
	return node
}

// makeNamespace has a uid and a version, which increases from call to call only
// where a test passes increasing ones.
func makeNamespace(name, version string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: version, Labels: labels,
	}}
}

// makeDaemonPod is a pod as the DaemonSet controller creates it.
func makeDaemonPod(namespace, name, node string) *st.PodWrapper {
	pod := st.MakePod().Namespace(namespace).Name(name).UID(name).
		OwnerReference("agent", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"})
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: pinnedTo(node)}
	return pod
}

// podIn is a pod of a namespace, named p.
func podIn(namespace string) *corev1.Pod {
	return st.MakePod().Namespace(namespace).Name("p").Obj()
}

// pinnedTo is the node affinity that the DaemonSet controller adds.
func pinnedTo(nodes ...string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: nodes,
			}},
		}},
	}}
}

func newCycleState() fwk.CycleState {
	return framework.NewCycleState()
}

// expectVerdicts runs PreFilter and Filter, and compares the reason of each node that is
// refused, or "" for one that passes, by the node's name. No map at all wants the plugin
// to skip the pod.
func expectVerdicts(t *testing.T, profile *schedtest.Profile, pod *corev1.Pod, want map[string]string) {
	t.Helper()
	if got := profile.Skips(t.Context(), t, pod); got != (want == nil) {
		t.Fatalf("skipped: want %t, got %t", want == nil, got)
	}
	if want == nil {
		return
	}
	got, status := profile.Filter(t.Context(), t, pod)
	if !status.IsSuccess() {
		t.Fatalf("PreFilter: %v", status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected verdicts (-want,+got):\n%s", diff)
	}
}
