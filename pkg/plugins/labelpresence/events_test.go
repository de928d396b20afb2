// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestEventsToRegister(t *testing.T) {
	node := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint}
	pod := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}
	tests := []struct {
		name string
		args config.LabelPresenceArgs
		want []fwk.ClusterEvent
	}{
		{
			name: "a rule for all pods",
			args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "a")}},
			want: []fwk.ClusterEvent{node},
		},
		{
			name: "a rule for some pods",
			args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{forPods(makeRule(true, "a"), "web")}},
			want: []fwk.ClusterEvent{node, pod},
		},
		{
			name: "a rule for some namespaces",
			args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "a"), "x")}},
			want: []fwk.ClusterEvent{node},
		},
		{
			name: "tenancy",
			args: config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)},
			want: []fwk.ClusterEvent{node},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pl := newProfile(t, &tt.args, schedtest.Options{}).Plugin.(*LabelPresence)
			events, err := pl.EventsToRegister(t.Context())
			if err != nil {
				t.Fatalf("EventsToRegister: %v", err)
			}
			var got []fwk.ClusterEvent
			for _, event := range events {
				got = append(got, event.Event)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected events (-want,+got):\n%s", diff)
			}
		})
	}
}

// checkHint compares a hint's answer. An error always means Queue to the caller.
func checkHint(t *testing.T, want, got fwk.QueueingHint, wantErr bool, err error) {
	t.Helper()
	if (err != nil) != wantErr {
		t.Fatalf("want error %t, got %v", wantErr, err)
	}
	if got != want {
		t.Errorf("want %v, got %v", want, got)
	}
}

func TestIsSchedulableAfterNodeChange(t *testing.T) {
	rules := &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{
		makeRule(true, "a"), forPods(makeRule(true, "b"), "web"),
	}}
	tenancy := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsConfined, "kube-system")}
	node := func(labels ...string) *corev1.Node {
		n := st.MakeNode().Name("n")
		for _, label := range labels {
			n.Label(label, "blue")
		}
		return n.Obj()
	}
	pod := podIn("blue")
	webPod := st.MakePod().Namespace("blue").Name("p").Label("app", "web").Obj()
	tests := []struct {
		name           string
		args           *config.LabelPresenceArgs
		pod            *corev1.Pod
		oldObj, newObj any
		want           fwk.QueueingHint
		wantErr        bool
	}{
		{name: "a new node passes", args: rules, pod: pod, newObj: node("a"), want: fwk.Queue},
		{name: "a new node is rejected", args: rules, pod: pod, newObj: node("b"), want: fwk.QueueSkip},
		{name: "a new node passes for other pods", args: rules, pod: webPod, newObj: node("a"), want: fwk.QueueSkip},
		{name: "the missing label was added", args: rules, pod: pod, oldObj: node("b"), newObj: node("b", "a"), want: fwk.Queue},
		{name: "one of two missing labels was added", args: rules, pod: webPod, oldObj: node(), newObj: node("a"), want: fwk.QueueSkip},
		{name: "another label was added", args: rules, pod: pod, oldObj: node("a"), newObj: node("a", "x"), want: fwk.QueueSkip},
		{name: "the label was removed", args: rules, pod: pod, oldObj: node("a"), newObj: node(), want: fwk.QueueSkip},
		{name: "a taint was removed", args: rules, pod: pod, oldObj: tainted(node("a"), ""), newObj: node("a"), want: fwk.QueueSkip},
		{name: "a taint was removed and the label added", args: rules, pod: pod, oldObj: tainted(node(), ""), newObj: node("a"), want: fwk.Queue},
		{name: "a node was given to the pod's tenant", args: tenancy, pod: pod, oldObj: node(), newObj: node(nodeTenantKey), want: fwk.Queue},
		{name: "a node was taken from the pod's tenant", args: tenancy, pod: pod, oldObj: node(nodeTenantKey), newObj: node(), want: fwk.QueueSkip},
		{name: "a node of the pod's tenant keeps its taint", args: tenancy, pod: pod, oldObj: tainted(node(), "blue"), newObj: tainted(node(nodeTenantKey), "blue"), want: fwk.Queue},
		{name: "a taint that disagrees was removed", args: tenancy, pod: pod, oldObj: tainted(node(nodeTenantKey), "red"), newObj: node(nodeTenantKey), want: fwk.Queue},
		{name: "a taint came that agrees", args: tenancy, pod: pod, oldObj: node(nodeTenantKey), newObj: tainted(node(nodeTenantKey), "blue"), want: fwk.QueueSkip},
		{name: "a taint came that disagrees", args: tenancy, pod: pod, oldObj: node(nodeTenantKey), newObj: tainted(node(nodeTenantKey), "red"), want: fwk.QueueSkip},
		{name: "a new node has only the taint", args: tenancy, pod: pod, newObj: tainted(node(), "blue"), want: fwk.QueueSkip},
		{
			name: "the pod's namespace is not known: no node helps",
			args: tenancy, pod: podIn("unknown"), newObj: node(), want: fwk.QueueSkip,
		},
		{name: "not a node", args: rules, pod: pod, newObj: pod, want: fwk.Queue, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			logger, _ := ktesting.NewTestContext(t)
			profile := startProfile(t, tt.args, schedtest.Options{
				Namespaces: []*corev1.Namespace{makeNamespace("blue", "1", map[string]string{namespaceTenantKey: "blue"})},
			})
			pl := profile.Plugin.(*LabelPresence)
			if pl.namespaces != nil {
				if err := plugin.WaitForSync(t.Context(), pl.namespaces.synced); err != nil {
					t.Fatal(err)
				}
			}
			got, err := pl.isSchedulableAfterNodeChange(logger, tt.pod, tt.oldObj, tt.newObj)
			checkHint(t, tt.want, got, tt.wantErr, err)
		})
	}
}

func TestIsSchedulableAfterPodLabelChange(t *testing.T) {
	args := &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{
		forPods(makeRule(true, "a"), "web"), forPods(makeRule(true, "b"), "db"),
	}}
	pod := func(uid, app string) *corev1.Pod {
		return st.MakePod().Namespace("ns").Name("p").UID(uid).Label("app", app).Obj()
	}
	tests := []struct {
		name           string
		oldObj, newObj any
		want           fwk.QueueingHint
		wantErr        bool
	}{
		{name: "no rule selects the pod any more", oldObj: pod("1", "web"), newObj: pod("1", "x"), want: fwk.Queue},
		{name: "another rule selects the pod", oldObj: pod("1", "web"), newObj: pod("1", "db"), want: fwk.Queue},
		{name: "a rule selects the pod now", oldObj: pod("1", "x"), newObj: pod("1", "web"), want: fwk.QueueSkip},
		{name: "no rule looks at the label", oldObj: pod("1", "x"), newObj: pod("1", "y"), want: fwk.QueueSkip},
		{name: "another pod", oldObj: pod("2", "web"), newObj: pod("2", "x"), want: fwk.QueueSkip},
		{name: "not a pod", oldObj: pod("1", "web"), newObj: makeNode("n", nil), want: fwk.Queue, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			logger, _ := ktesting.NewTestContext(t)
			pl := newProfile(t, args, schedtest.Options{}).Plugin.(*LabelPresence)
			got, err := pl.isSchedulableAfterPodLabelChange(logger, pod("1", "web"), tt.oldObj, tt.newObj)
			checkHint(t, tt.want, got, tt.wantErr, err)
		})
	}
}
