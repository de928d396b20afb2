// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestFilterRules(t *testing.T) {
	webPod := st.MakePod().Namespace("blue").Name("p").Label("app", "web").Obj()
	nodes := []*corev1.Node{
		makeNode("plain", nil),
		makeNode("a", map[string]string{"a": "1"}),
		makeNode("ab", map[string]string{"a": "", "b": "2"}),
	}
	const (
		missesA = `node(s) didn't have label "a", which rules[0] of LabelPresence in profile "berth-scheduler" requires (ask that profile's administrator)`
		missesB = `node(s) didn't have label "b", which rules[0] of LabelPresence in profile "berth-scheduler" requires (ask that profile's administrator)`
	)
	tests := []struct {
		name  string
		rules []config.LabelPresenceRule
		// want has the reason by node; nil means that the plugin skips the pod.
		want map[string]string
	}{
		{
			name:  "a label must be there, whatever its value",
			rules: []config.LabelPresenceRule{makeRule(true, "a")},
			want:  map[string]string{"plain": missesA, "a": "", "ab": ""},
		},
		{
			name:  "a label must not be there, whatever its value",
			rules: []config.LabelPresenceRule{makeRule(false, "a")},
			want: map[string]string{
				"plain": "",
				"a":     `node(s) had label "a", which rules[0] of LabelPresence in profile "berth-scheduler" forbids (ask that profile's administrator)`,
				"ab":    `node(s) had label "a", which rules[0] of LabelPresence in profile "berth-scheduler" forbids (ask that profile's administrator)`,
			},
		},
		{
			name:  "all labels of a rule, the first that is missing is named",
			rules: []config.LabelPresenceRule{makeRule(true, "a", "b")},
			want:  map[string]string{"plain": missesA, "a": missesB, "ab": ""},
		},
		{
			name:  "none of the labels of a rule",
			rules: []config.LabelPresenceRule{makeRule(false, "b", "a")},
			want: map[string]string{
				"plain": "",
				"a":     `node(s) had label "a", which rules[0] of LabelPresence in profile "berth-scheduler" forbids (ask that profile's administrator)`,
				"ab":    `node(s) had label "b", which rules[0] of LabelPresence in profile "berth-scheduler" forbids (ask that profile's administrator)`,
			},
		},
		{
			name:  "all rules",
			rules: []config.LabelPresenceRule{makeRule(true, "a"), makeRule(false, "b")},
			want:  map[string]string{"plain": missesA, "a": "", "ab": `node(s) had label "b", which rules[1] of LabelPresence in profile "berth-scheduler" forbids (ask that profile's administrator)`},
		},
		{
			name:  "a rule for these pods",
			rules: []config.LabelPresenceRule{forPods(makeRule(true, "b"), "web")},
			want:  map[string]string{"plain": missesB, "a": missesB, "ab": ""},
		},
		{
			name:  "a rule for other pods",
			rules: []config.LabelPresenceRule{forPods(makeRule(true, "b"), "db")},
			want:  nil,
		},
		{
			name:  "a rule for namespaces like the pod's",
			rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "b"), "x")},
			want:  map[string]string{"plain": missesB, "a": missesB, "ab": ""},
		},
		{
			name:  "a rule for other namespaces",
			rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "b"), "y")},
			want:  nil,
		},
		{
			name:  "both selectors must match: the pod's does not",
			rules: []config.LabelPresenceRule{inNamespaces(forPods(makeRule(true, "b"), "db"), "x")},
			want:  nil,
		},
		{
			name:  "both selectors must match: the namespace's does not",
			rules: []config.LabelPresenceRule{inNamespaces(forPods(makeRule(true, "b"), "web"), "y")},
			want:  nil,
		},
		{
			name: "empty selectors match all",
			rules: []config.LabelPresenceRule{{
				Labels: []string{"b"}, Presence: new(true),
				PodSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{},
			}},
			want: map[string]string{"plain": missesB, "a": missesB, "ab": ""},
		},
		{
			name: "of several rules, those that apply",
			rules: []config.LabelPresenceRule{
				forPods(makeRule(true, "nowhere"), "db"),
				inNamespaces(makeRule(true, "nowhere"), "y"),
				forPods(makeRule(true, "a"), "web"),
			},
			want: map[string]string{"plain": `node(s) didn't have label "a", which rules[2] of LabelPresence in profile "berth-scheduler" requires (ask that profile's administrator)`, "a": "", "ab": ""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile := startProfile(t, &config.LabelPresenceArgs{Rules: tt.rules}, schedtest.Options{
				Nodes:      nodes,
				Namespaces: []*corev1.Namespace{makeNamespace("blue", "1", map[string]string{"team": "x"})},
			})
			expectVerdicts(t, profile, webPod, tt.want)
		})
	}
}

func TestFilterDaemonSets(t *testing.T) {
	daemonSet := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	pinned := func(pod *corev1.Pod, affinity *corev1.NodeAffinity) *corev1.Pod {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity}
		return pod
	}
	twoTerms := pinnedTo("n")
	twoTerms.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = append(
		twoTerms.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}}})
	notIn := pinnedTo("n")
	notIn.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Operator = corev1.NodeSelectorOpNotIn
	uncontrolled := makeDaemonPod("ns", "p", "n").Obj()
	uncontrolled.OwnerReferences[0].Controller = new(false)

	tests := []struct {
		name       string
		daemonSets config.DaemonSetPolicy
		pod        *corev1.Pod
		wantExempt bool
	}{
		{
			name:       "a pod of the DaemonSet controller",
			pod:        makeDaemonPod("ns", "p", "n").Obj(),
			wantExempt: true,
		},
		{
			name:       "the same, where rules are enforced",
			daemonSets: config.DaemonSetsEnforce,
			pod:        makeDaemonPod("ns", "p", "n").Obj(),
		},
		{
			name: "an owner alone",
			pod:  st.MakePod().Name("p").OwnerReference("agent", daemonSet).Obj(),
		},
		{
			name: "an affinity to one node alone",
			pod:  pinned(st.MakePod().Name("p").Obj(), pinnedTo("n")),
		},
		{
			name: "an owner that does not control the pod",
			pod:  uncontrolled,
		},
		{
			name: "an owner of that kind in another group",
			pod: pinned(st.MakePod().Name("p").OwnerReference("agent",
				schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "DaemonSet"}).Obj(), pinnedTo("n")),
		},
		{
			name: "an owner of another kind",
			pod: pinned(st.MakePod().Name("p").OwnerReference("agent",
				schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}).Obj(), pinnedTo("n")),
		},
		{
			name: "an affinity to several nodes",
			pod:  pinned(makeDaemonPod("ns", "p", "n").Obj(), pinnedTo("n", "m")),
		},
		{
			name: "an affinity with a way around the node's name",
			pod:  pinned(makeDaemonPod("ns", "p", "n").Obj(), twoTerms),
		},
		{
			name: "an affinity to every node but one",
			pod:  pinned(makeDaemonPod("ns", "p", "n").Obj(), notIn),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "a")}, DaemonSets: tt.daemonSets}
			profile := startProfile(t, args, schedtest.Options{Nodes: []*corev1.Node{makeNode("n", nil)}})
			got, status := profile.Filter(t.Context(), t, tt.pod)
			if !status.IsSuccess() {
				t.Fatalf("PreFilter: %v", status)
			}
			if gotExempt := got["n"] == ""; gotExempt != tt.wantExempt {
				t.Errorf("exempt: want %t, got %t (reason %q)", tt.wantExempt, gotExempt, got["n"])
			}
		})
	}
}

// The exemption is about rules only.
func TestFilterDaemonPodIsSubjectToTenancy(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{makeRule(true, "nowhere")},
		Tenancy: makeTenancy(config.TenantsConfined),
	}
	profile := startProfile(t, args, schedtest.Options{
		Nodes: []*corev1.Node{
			makeNode("own", map[string]string{nodeTenantKey: "blue"}),
			makeNode("other", map[string]string{nodeTenantKey: "red"}),
		},
		Namespaces: []*corev1.Namespace{makeNamespace("blue", "1", map[string]string{namespaceTenantKey: "blue"})},
	})
	expectVerdicts(t, profile, makeDaemonPod("blue", "p", "other").Obj(), map[string]string{"own": "", "other": reasonOtherTenant})
}

// The policy of old, labelsPresence {labels: [selectable], presence: true}, and a
// pod with a nodeSelector of its own.
func TestFilterRefusesWithoutHopeOfPreemption(t *testing.T) {
	profile := startProfile(t, &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "selectable")}},
		schedtest.Options{Nodes: []*corev1.Node{makeNode("gpu", map[string]string{"device": "gpu"})}})
	pod := st.MakePod().Name("p").NodeSelector(map[string]string{"device": "gpu"}).Obj()

	status := filterOne(t, profile, pod)
	if got := status.Code(); got != fwk.UnschedulableAndUnresolvable {
		t.Errorf("want %v, got %v", fwk.UnschedulableAndUnresolvable, got)
	}
	if got := status.Plugin(); got != Name {
		t.Errorf("want the plugin to be named %q, got %q", Name, got)
	}
	// The framework writes to a status, in many goroutines at once.
	if again := filterOne(t, profile, pod); again == status {
		t.Error("two rejections share one Status")
	}
}

// filterOne returns the status of the snapshot's only node.
func filterOne(t *testing.T, profile *schedtest.Profile, pod *corev1.Pod) *fwk.Status {
	t.Helper()
	state := profile.NewCycle(t.Context(), t, pod)
	return profile.RunFilterPlugins(t.Context(), state, pod, profile.Nodes(t)[0])
}

func TestPreFilterState(t *testing.T) {
	profile := startProfile(t, &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "a")}},
		schedtest.Options{Nodes: []*corev1.Node{makeNode("n", nil)}})
	pod := st.MakePod().Name("p").Obj()
	state := profile.NewCycle(t.Context(), t, pod)

	original, err := plugin.ReadState[*preFilterState](state, preFilterStateKey)
	if err != nil {
		t.Fatal(err)
	}
	cloned, err := plugin.ReadState[*preFilterState](state.Clone(), preFilterStateKey)
	if err != nil {
		t.Fatal(err)
	}
	if original != cloned {
		t.Error("the clone is a copy, for no reason")
	}
	state.Write(preFilterStateKey, otherState{})
	if _, err := plugin.ReadState[*preFilterState](state, preFilterStateKey); err == nil {
		t.Error("want an error for a state of another type, got none")
	}
}

// otherState is not what PreFilter writes.
type otherState struct{}

func (s otherState) Clone() fwk.StateData { return s }
