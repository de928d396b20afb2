// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// The plugin's own informer keeps the index up to date without any hint: nobody
// calls one while no pod is rejected.
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
	index := profile.Plugin.(*LabelPresence).namespaces.index
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
			facts, known := pl.namespaces.index.get("ns")
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
		facts, _ := profile.Plugin.(*LabelPresence).namespaces.index.get("ns")
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
		eventually(t, "the namespace is known", func() bool { _, known := pl.namespaces.index.get("ns"); return known })
	}
}

// tenantFacts is a policy's factsOf that knows the tenant alone.
func tenantFacts(labels map[string]string) namespaceFacts {
	return namespaceFacts{tenant: tenantOf(labels, namespaceTenantKey)}
}

// incarnation is a namespace with a uid, a version, and a tenant.
func incarnation(uid, version, name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "ns", UID: types.UID(uid), ResourceVersion: version, Labels: map[string]string{namespaceTenantKey: name},
	}}
}

func TestNamespaceIndex(t *testing.T) {
	type step struct {
		// byInformer is whether the plugin's informer delivers the change, rather
		// than a hint.
		byInformer   bool
		old, updated *corev1.Namespace
	}
	hint := func(old, updated *corev1.Namespace) step { return step{false, old, updated} }
	informer := func(old, updated *corev1.Namespace) step { return step{true, old, updated} }
	v1, v2, v3 := incarnation("u", "9", "a"), incarnation("u", "10", "b"), incarnation("u", "11", "c")
	deleted := incarnation("u", "12", "c")
	again := incarnation("w", "13", "d")

	tests := []struct {
		name  string
		steps []step
		// want is the tenant, "" if the namespace is not known.
		want string
	}{
		{name: "nothing", want: ""},
		{name: "the informer delivers", steps: []step{informer(nil, v1), informer(v1, v2)}, want: "b"},
		{name: "a hint delivers", steps: []step{hint(nil, v1)}, want: "a"},
		{name: "versions are numbers: 10 is after 9", steps: []step{informer(nil, v2), hint(nil, v1)}, want: "b"},
		{name: "a hint is ahead", steps: []step{informer(nil, v1), hint(v1, v2), hint(v2, v3), informer(v1, v2)}, want: "c"},
		{name: "a hint is late", steps: []step{informer(nil, v1), informer(v1, v2), informer(v2, v3), hint(v1, v2)}, want: "c"},
		{name: "hints repeat themselves", steps: []step{hint(nil, v1), hint(v1, v2), hint(nil, v1), hint(v1, v2)}, want: "b"},
		{name: "deleted", steps: []step{informer(nil, v1), informer(deleted, nil)}, want: ""},
		{name: "deleted, and the last state known is an older one", steps: []step{informer(nil, v1), hint(v1, v3), informer(v1, nil)}, want: ""},
		{name: "a late hint does not bring it back", steps: []step{informer(nil, v1), informer(deleted, nil), hint(v2, v3)}, want: ""},
		{name: "created again", steps: []step{informer(nil, v1), informer(deleted, nil), informer(nil, again)}, want: "d"},
		{name: "created again, a hint is ahead of the deletion", steps: []step{informer(nil, v1), hint(nil, again), informer(deleted, nil)}, want: "d"},
		{name: "created again, the deletion was missed", steps: []step{informer(nil, v1), informer(v1, again)}, want: "d"},
		{name: "created again, a late hint of the first", steps: []step{informer(nil, again), hint(v2, v3)}, want: "d"},
		{name: "created again, deleted first with a newer version", steps: []step{hint(nil, v3), informer(incarnation("x", "14", "e"), nil)}, want: ""},
		{name: "a deletion that nothing is known of", steps: []step{informer(deleted, nil)}, want: ""},
		{name: "restored to an older version", steps: []step{informer(nil, v1), informer(v1, v3), informer(v3, v2)}, want: "b"},
		{name: "restored, and a hint repeats what was lost", steps: []step{informer(nil, v1), informer(v1, v3), informer(v3, v1), hint(v2, v3), informer(v1, v2)}, want: "b"},
		{name: "restored, and a hint was ahead of the informer", steps: []step{informer(nil, v1), hint(v1, v3), informer(v1, v1)}, want: "a"},
		{name: "restored, and created before it was", steps: []step{informer(nil, v3), informer(deleted, nil), informer(nil, v1)}, want: "a"},
		{name: "restored, and deleted", steps: []step{informer(nil, v2), informer(v2, v1), informer(v1, nil)}, want: ""},
		{name: "neither old nor new", steps: []step{informer(nil, v1), hint(nil, nil)}, want: "a"},
		{
			name:  "without versions, what is told last counts",
			steps: []step{informer(nil, incarnation("u", "", "a")), hint(nil, incarnation("u", "", "b"))},
			want:  "b",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			index := newNamespaceIndex(tenantFacts)
			for _, s := range tt.steps {
				var old, updated metav1.Object
				if s.old != nil {
					old = s.old
				}
				if s.updated != nil {
					updated = s.updated
				}
				if s.byInformer {
					index.applyDelivered(old, updated)
				} else {
					index.apply(old, updated)
				}
			}
			facts, known := index.get("ns")
			if known != (tt.want != "") || facts.tenant.name != tt.want {
				t.Errorf("want %q, got %q (known %t)", tt.want, facts.tenant.name, known)
			}
		})
	}
}

// A list comes in any order: what counts is the highest version of it.
func TestNamespaceIndexRemembersTheHighestVersion(t *testing.T) {
	index := newNamespaceIndex(tenantFacts)
	index.applyDelivered(nil, makeNamespace("young", "20", nil))
	index.applyDelivered(nil, makeNamespace("old", "5", nil))
	index.apply(nil, makeNamespace("deleted-since", "12", nil))
	index.apply(nil, makeNamespace("brand-new", "21", nil))
	for name, want := range map[string]bool{"young": true, "old": true, "deleted-since": false, "brand-new": true} {
		if _, got := index.get(name); got != want {
			t.Errorf("%s: want known %t, got %t", name, want, got)
		}
	}
}

// namespaceHistory is a sequence of changes as an API server serializes them:
// each has a higher version than the one before.
type namespaceHistory struct {
	events []namespaceEvent
	// final has the namespaces that exist in the end.
	final map[string]*corev1.Namespace
}

type namespaceEvent struct {
	old, updated *corev1.Namespace
}

func (e namespaceEvent) objects() (old, updated metav1.Object) {
	if e.old != nil {
		old = e.old
	}
	if e.updated != nil {
		updated = e.updated
	}
	return old, updated
}

func makeHistory(random *rand.Rand, length int) namespaceHistory {
	history := namespaceHistory{final: map[string]*corev1.Namespace{}}
	for version := 1; version <= length; version++ {
		name := fmt.Sprintf("ns-%d", random.IntN(4))
		old := history.final[name]
		// The versions cross 9 and 99, where a comparison of strings would err.
		next := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{namespaceTenantKey: strconv.Itoa(random.IntN(3))},
		}}
		switch {
		case old == nil:
			next.UID = types.UID(fmt.Sprintf("%s-%d", name, version))
			history.events = append(history.events, namespaceEvent{updated: next})
			history.final[name] = next
		case random.IntN(4) == 0:
			// The object of a deletion carries the version of the deletion.
			next.UID, next.Labels = old.UID, old.Labels
			history.events = append(history.events, namespaceEvent{old: next})
			delete(history.final, name)
		default:
			next.UID = old.UID
			history.events = append(history.events, namespaceEvent{old: old, updated: next})
			history.final[name] = next
		}
	}
	return history
}

// Whatever hints say in whatever order, as often as they like, before or after
// the informer: what a hint has told is known at once, nothing ever goes back to
// an older state, and when the informer has delivered all, the index is right.
func TestNamespaceIndexUnderDisorder(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		history := makeHistory(random, 150)
		index := newNamespaceIndex(tenantFacts)
		delivered := 0
		for delivered < len(history.events) {
			if random.IntN(2) == 0 {
				index.applyDelivered(history.events[delivered].objects())
				delivered++
				continue
			}
			hinted := random.IntN(len(history.events))
			told(t, seed, index, history, delivered, hinted)
		}
		// Late hints change nothing any more.
		for range 200 {
			told(t, seed, index, history, delivered, random.IntN(len(history.events)))
		}

		want, got := map[string]string{}, map[string]string{}
		for name, namespace := range history.final {
			want[name] = namespace.ResourceVersion + " " + namespace.Labels[namespaceTenantKey]
		}
		for name, entry := range index.entries {
			got[name] = entry.version + " " + entry.facts.tenant.name
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: unexpected namespaces (-want,+got):\n%s", seed, diff)
		}
	}
}

// told lets a hint tell of an event, and checks what the index knows then.
// delivered is how many events the informer has delivered.
func told(t *testing.T, seed uint64, index *namespaceIndex, history namespaceHistory, delivered, hinted int) {
	t.Helper()
	event := history.events[hinted]
	if event.updated == nil {
		return // no hint is registered for deletions
	}
	name := event.updated.Name
	before, knownBefore := index.entries[name]
	index.apply(event.objects())
	after, knownAfter := index.entries[name]

	if knownBefore && (!knownAfter || isNewer(before.version, after.version)) {
		t.Fatalf("seed %d: a hint took version %s of %s back to %q", seed, before.version, name, after.version)
	}
	if hinted >= delivered && (!knownAfter || isNewer(event.updated.ResourceVersion, after.version)) {
		t.Fatalf("seed %d: a hint told of version %s of %s, and the index knows %q", seed, event.updated.ResourceVersion, name, after.version)
	}
}

// After a lost watch, the informer delivers the difference between what it knew
// and what a new list has, in any order. Every namespace that exists is right in
// the end.
func TestNamespaceIndexAfterRelist(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		history := makeHistory(random, 150)
		index := newNamespaceIndex(tenantFacts)
		lost := random.IntN(len(history.events))
		knew := map[string]*corev1.Namespace{}
		for _, event := range history.events[:lost] {
			index.applyDelivered(event.objects())
			if event.updated != nil {
				knew[event.updated.Name] = event.updated
			} else {
				delete(knew, event.old.Name)
			}
		}
		// Map order is the disorder.
		difference := map[string]namespaceEvent{}
		for name, namespace := range history.final {
			difference[name] = namespaceEvent{old: knew[name], updated: namespace}
		}
		for name, namespace := range knew {
			if history.final[name] == nil {
				// The object is the last one known; the deletion itself was not seen.
				difference[name] = namespaceEvent{old: namespace}
			}
		}
		for _, event := range difference {
			told(t, seed, index, history, len(history.events), random.IntN(len(history.events)))
			index.applyDelivered(event.objects())
		}
		for name, namespace := range history.final {
			if got, want := index.entries[name].version, namespace.ResourceVersion; got != want {
				t.Fatalf("seed %d: %s: want version %s, got %q", seed, name, want, got)
			}
		}
	}
}
