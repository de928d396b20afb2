// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Fatalf("Waiting until %s: %v", what, err)
	}
}

// PreFilter does not take a namespace for unknown only because the informer has
// not run yet.
func TestPreFilterWaitsForTheFirstList(t *testing.T) {
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)}
	profile := newProfile(t, args, schedtest.Options{
		Nodes:      []*corev1.Node{makeNode("n", nil)},
		Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)},
	})
	pod := podIn("ns")

	cause := errors.New("the test has waited enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, status := profile.Filter(ctx, t, pod)
	if status.Code() != fwk.Error || !errors.Is(status.AsError(), cause) {
		t.Errorf("before the informers run: want an error with the cause, got %v", status)
	}

	result := make(chan *fwk.Status, 1)
	go func() {
		_, status := profile.Filter(t.Context(), t, pod)
		result <- status
	}()
	profile.Start(t.Context(), t)
	if status := <-result; !status.IsSuccess() {
		t.Errorf("when the informers run: want success, got %v", status)
	}
}

// What is known of a namespace follows the informer.
func TestNamespaceFacts(t *testing.T) {
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)}
	profile := startProfile(t, args, schedtest.Options{Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)}})
	index := profile.Plugin.(*LabelPresence).namespaces
	namespaces := profile.Client.CoreV1().Namespaces()
	has := func(tenantName string) func() bool {
		return func() bool {
			facts, known := index.get("ns")
			return known && facts.tenant.name == tenantName
		}
	}
	eventually(t, "the namespace is known", has(""))

	updated := makeNamespace("ns", "2", map[string]string{namespaceTenantKey: "blue"})
	if _, err := namespaces.Update(t.Context(), updated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant is known", has("blue"))

	if err := namespaces.Delete(t.Context(), "ns", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is forgotten", func() bool { _, known := index.get("ns"); return !known })

	again := makeNamespace("ns", "4", map[string]string{namespaceTenantKey: "red"})
	again.UID = "another"
	if _, err := namespaces.Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new namespace is known", has("red"))
}

// A pod that no hint could wake, because the event had passed before the pod was
// refused, is activated when the plugin's informer catches up.
func TestInformerWakesPendingPods(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{forPods(makeRule(true, "a"), "rules-only")},
		Tenancy: makeTenancy(config.TenantsConfined, "exempt"),
	}
	makePod := func(namespace, name string) *st.PodWrapper {
		return st.MakePod().Namespace(namespace).Name(name).UID(namespace + name).SchedulerName(names.Scheduler)
	}
	profile := startProfile(t, args, schedtest.Options{
		Nodes: []*corev1.Node{makeNode("n", map[string]string{nodeTenantKey: "green"})},
		Pods: []*corev1.Pod{
			makePod("ns", "pending").Obj(),
			makePod("ns", "not-tried-yet").Obj(),
			makePod("ns", "bound").Node("n").Obj(),
			makePod("ns", "other-scheduler").SchedulerName("default-scheduler").Obj(),
			makePod("other", "pending").Obj(),
			makePod("exempt", "pending").Obj(),
			makePod("late", "pending").Obj(),
		},
		Namespaces: []*corev1.Namespace{
			makeNamespace("ns", "1", nil), makeNamespace("other", "2", nil), makeNamespace("exempt", "3", nil),
		},
	})
	index := profile.Plugin.(*LabelPresence).namespaces
	eventually(t, "the namespaces are known", func() bool {
		_, known := index.get("other")
		return known && cache.IsDone(profile.Plugin.(*LabelPresence).namespaces.synced)
	})
	namespaces := profile.Client.CoreV1().Namespaces()
	for _, key := range []string{"ns/pending", "other/pending", "exempt/pending", "late/pending"} {
		namespace, name, _ := strings.Cut(key, "/")
		profile.Filter(t.Context(), t, makePod(namespace, name).Obj())
	}
	profile.Filter(t.Context(), t, makePod("ns", "not-there").Obj())
	steps := []struct {
		name      string
		namespace *corev1.Namespace
		create    bool
		want      []string
	}{
		{name: "a tenant", namespace: makeNamespace("ns", "10", map[string]string{namespaceTenantKey: "blue"}), want: []string{"ns/pending"}},
		{name: "nothing that matters", namespace: makeNamespace("ns", "11", map[string]string{namespaceTenantKey: "blue", "x": "y"})},
		{name: "an exempt namespace", namespace: makeNamespace("exempt", "12", map[string]string{namespaceTenantKey: "blue"})},
		{name: "a namespace that was not known", namespace: makeNamespace("late", "13", nil), create: true, want: []string{"late/pending"}},
		{name: "another tenant", namespace: makeNamespace("ns", "14", map[string]string{namespaceTenantKey: "red"}), want: []string{"ns/pending"}},
	}
	for _, step := range steps {
		var err error
		if step.create {
			_, err = namespaces.Create(t.Context(), step.namespace, metav1.CreateOptions{})
		} else {
			_, err = namespaces.Update(t.Context(), step.namespace, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range step.want {
			eventually(t, "a pod is activated by "+step.name, func() bool {
				select {
				case name := <-profile.Activated:
					got = append(got, name)
					return true
				default:
					return false
				}
			})
		}
		// A pod too many shows up at the latest in the next step.
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: unexpected pods activated (-want,+got):\n%s", step.name, diff)
		}
	}
	select {
	case name := <-profile.Activated:
		t.Errorf("%s was activated too", name)
	default:
	}
	// A pod that the plugin rejects no more, or that is gone, is not remembered.
	rejected := &profile.Plugin.(*LabelPresence).namespaces.rejected
	if err := profile.Client.CoreV1().Pods("ns").Delete(t.Context(), "pending", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is forgotten", func() bool { _, has := rejected.in("ns")["nspending"]; return !has })
	if _, has := rejected.in("ns")["nsnot-there"]; has {
		t.Error("a pod that is gone already is remembered")
	}
}

// TestNotWokenByNamespaces edits a label that rules select namespaces by: the pods that the
// plugin did not reject are not activated.
func TestNotWokenByNamespaces(t *testing.T) {
	const edits = 20
	args := &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "a"), "x")}}
	var pods []*corev1.Pod
	for i := range 50 {
		name := fmt.Sprintf("p-%d", i)
		pods = append(pods, st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName(names.Scheduler).Obj())
	}
	profile := startProfile(t, args, schedtest.Options{
		Nodes: []*corev1.Node{makeNode("n", map[string]string{"a": ""})}, Pods: pods,
		Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", map[string]string{"team": "x"})},
	})
	pl := profile.Plugin.(*LabelPresence)
	for _, pod := range pods {
		if verdicts, status := profile.Filter(t.Context(), t, pod); !status.IsSuccess() || verdicts["n"] != "" {
			t.Fatalf("%s is rejected: %v, %v", pod.Name, verdicts, status)
		}
	}
	for i := range edits {
		team := []string{"y", "x"}[i%2]
		if _, err := profile.Client.CoreV1().Namespaces().Update(t.Context(), makeNamespace("ns", strconv.Itoa(i+2), map[string]string{"team": team}), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the namespace is of team "+team, func() bool {
			facts, known := pl.namespaces.get("ns")
			return known && facts.matched[0] == (team == "x")
		})
	}
	if got := len(profile.Activated); got > 0 {
		t.Errorf("%d edits of a label activated %d pods that the plugin did not reject", edits, got)
	}
}

// TestRejectedWhileTheNamespaceChanged: a change that the informer delivers between PreFilter
// and the rejection wakes the pod.
func TestRejectedWhileTheNamespaceChanged(t *testing.T) {
	pod := st.MakePod().Namespace("ns").Name("p").UID("p").SchedulerName(names.Scheduler).Obj()
	profile := startProfile(t, &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsConfined)}, schedtest.Options{
		Nodes: []*corev1.Node{makeNode("n", map[string]string{nodeTenantKey: "blue"})}, Pods: []*corev1.Pod{pod},
		Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)},
	})
	state := profile.NewCycle(t.Context(), t, pod)
	if _, err := profile.Client.CoreV1().Namespaces().Update(t.Context(), makeNamespace("ns", "2", map[string]string{namespaceTenantKey: "blue"}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant is known", func() bool {
		facts, _ := profile.Plugin.(*LabelPresence).namespaces.get("ns")
		return facts.tenant.exists
	})
	if status := profile.RunFilterPlugins(t.Context(), state, pod, profile.Nodes(t)[0]); !status.IsRejected() {
		t.Fatalf("the pod is not rejected by what PreFilter has read: %v", status)
	}
	select {
	case name := <-profile.Activated:
		if name != "ns/p" {
			t.Errorf("%s is activated", name)
		}
	default:
		t.Error("the pod is not activated")
	}
}

// Two profiles in one process share the informers.
func TestTwoPluginsOnOneFactory(t *testing.T) {
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree), DaemonSets: config.DaemonSetsExempt}
	profile := newProfile(t, args, schedtest.Options{Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)}})
	second, err := New(t.Context(), args, profile.Plugin.(*LabelPresence).handle)
	if err != nil {
		t.Fatalf("a second plugin on the same informers: %v", err)
	}
	profile.Start(t.Context(), t)
	for _, pl := range []*LabelPresence{profile.Plugin.(*LabelPresence), second.(*LabelPresence)} {
		eventually(t, "the namespace is known", func() bool { _, known := pl.namespaces.get("ns"); return known })
	}
}

// TestWhichChangesWake: only a change of the pod's own namespace after which a rule does not
// apply any more, or tenancy may say something else.
func TestWhichChangesWake(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{inNamespaces(makeRule(true, "a"), "x"), inNamespaces(forPods(makeRule(true, "b"), "web"), "y")},
		Tenancy: makeTenancy(config.TenantsConfined, "kube-system"),
	}
	p := newProfile(t, args, schedtest.Options{}).Plugin.(*LabelPresence).policy
	type labels = map[string]string
	for _, tt := range []struct {
		name, namespace string
		before, after   labels
		want            bool
	}{
		{name: "a rule does not apply any more", before: labels{"team": "x"}, after: labels{"team": "z"}, want: true},
		{name: "a rule that does not select the pod does not apply any more", before: labels{"team": "y"}},
		{name: "a rule starts to apply", after: labels{"team": "x"}},
		{name: "the tenant is another one", before: labels{namespaceTenantKey: "blue"}, after: labels{namespaceTenantKey: "red"}, want: true},
		{name: "the tenant is gone", before: labels{namespaceTenantKey: ""}, want: true},
		{name: "a label that nothing looks at", before: labels{"z": "1"}, after: labels{"z": "2"}},
		{name: "the tenant of an exempt namespace", namespace: "kube-system", after: labels{namespaceTenantKey: "blue"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := podIn("ns")
			if tt.namespace != "" {
				pod = st.MakePod().Namespace(tt.namespace).Name("p").Label("app", "db").Obj()
			}
			before := p.factsOf(tt.before)
			if got := p.mayMakeSchedulable(p.selectFor(pod), &before, p.factsOf(tt.after)); got != tt.want {
				t.Errorf("want %t, got %t", tt.want, got)
			}
		})
	}
	if !p.mayMakeSchedulable(p.selectFor(podIn("ns")), nil, p.factsOf(nil)) {
		t.Error("a namespace that arrives wakes no pod")
	}
}

// tenantFacts is a policy's factsOf that knows the tenant alone.
func tenantFacts(labels map[string]string) namespaceFacts {
	return namespaceFacts{tenant: tenantOf(labels, namespaceTenantKey)}
}
