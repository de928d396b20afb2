// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	pod := st.MakePod().Namespace("ns").Name("p").Obj()

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

// The plugin's own informer keeps the index up to date without any hint: nobody
// calls one while no pod is refused.
func TestInformerFeedsTheIndex(t *testing.T) {
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)}
	profile := startProfile(t, args, schedtest.Options{Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)}})
	index := profile.Plugin.(*LabelPresence).namespaces.index
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
// refused, is woken when the plugin's informer catches up.
func TestInformerWakesPendingPods(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{forPods(makeRule(true, "a"), "rules-only")},
		Tenancy: makeTenancy(config.TenantsConfined, "exempt"),
	}
	makePod := func(namespace, name string) *st.PodWrapper {
		return st.MakePod().Namespace(namespace).Name(name).UID(namespace + name).SchedulerName(names.Scheduler)
	}
	profile := startProfile(t, args, schedtest.Options{
		Pods: []*corev1.Pod{
			makePod("ns", "pending").Obj(),
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
	index := profile.Plugin.(*LabelPresence).namespaces.index
	eventually(t, "the namespaces are known", func() bool {
		_, known := index.get("other")
		return known && profile.Plugin.(*LabelPresence).namespaces.waitForSync(t.Context()) == nil
	})
	namespaces := profile.Client.CoreV1().Namespaces()
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
			eventually(t, "a pod is woken by "+step.name, func() bool {
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
			t.Errorf("%s: unexpected pods woken (-want,+got):\n%s", step.name, diff)
		}
	}
	select {
	case name := <-profile.Activated:
		t.Errorf("%s was woken too", name)
	default:
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
		eventually(t, "the namespace is known", func() bool { _, known := pl.namespaces.index.get("ns"); return known })
	}
}
