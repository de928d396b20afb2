// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// monitorFixture drives a monitor by hand, as the informers do: the store
// changes first, then the handler is called.
type monitorFixture struct {
	t          *testing.T
	monitor    *tenancyMonitor
	nodes      cache.Indexer
	namespaces cache.Indexer
	gauge      metrics.GaugeMetric
	reported   []string
}

func newMonitorFixture(t *testing.T, tenants config.TenantPolicy, exempt ...string) *monitorFixture {
	t.Helper()
	f := &monitorFixture{
		t:          t,
		nodes:      cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		namespaces: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
	registerMetrics()
	f.gauge = tenancyViolations.WithLabelValues(t.Name())
	compiled := newTenancy(makeTenancy(tenants, exempt...), t.Name(), nodeRejections.WithLabelValues(t.Name(), ruleTenancy))
	reader := &namespaceFactsReader{lister: corelisters.NewNamespaceLister(f.namespaces), factsOf: tenantFacts}
	f.monitor = newTenancyMonitor(compiled, reader, corelisters.NewNodeLister(f.nodes), f.gauge, func(v violation) {
		f.reported = append(f.reported, v.pod.Name+" on "+v.node.Name)
	})
	return f
}

// node creates or changes a node; no tenant is "-".
func (f *monitorFixture) node(name, tenantName string) {
	f.t.Helper()
	updated := makeNode(name, nil)
	if tenantName != "-" {
		updated.Labels = map[string]string{nodeTenantKey: tenantName}
	}
	old, exists, err := f.nodes.GetByKey(name)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.nodes.Update(updated); err != nil {
		f.t.Fatal(err)
	}
	if exists {
		f.monitor.nodeHandler().OnUpdate(old, updated)
	} else {
		f.monitor.nodeHandler().OnAdd(updated, false)
	}
}

func (f *monitorFixture) deleteNode(name string) {
	f.t.Helper()
	old, _, err := f.nodes.GetByKey(name)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.nodes.Delete(old); err != nil {
		f.t.Fatal(err)
	}
	f.monitor.nodeHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: name, Obj: old})
}

// namespace creates or changes a namespace; no tenant is "-".
func (f *monitorFixture) namespace(name, version, tenantName string) {
	f.t.Helper()
	labels := map[string]string{}
	if tenantName != "-" {
		labels[namespaceTenantKey] = tenantName
	}
	if err := f.namespaces.Update(makeNamespace(name, version, labels)); err != nil {
		f.t.Fatal(err)
	}
	f.monitor.namespaceChanged(name)
}

func (f *monitorFixture) deleteNamespace(name, version string) {
	f.t.Helper()
	if err := f.namespaces.Delete(makeNamespace(name, version, nil)); err != nil {
		f.t.Fatal(err)
	}
	f.monitor.namespaceChanged(name)
}

// check compares the violations, and what was reported since the last check.
func (f *monitorFixture) check(what string, wantViolating int, wantReported ...string) {
	f.t.Helper()
	slices.Sort(f.reported)
	if diff := cmp.Diff(wantReported, f.reported); diff != "" {
		f.t.Errorf("%s: unexpected reports (-want,+got):\n%s", what, diff)
	}
	f.reported = nil
	got, err := testutil.GetGaugeMetricValue(f.gauge)
	if err != nil {
		f.t.Fatal(err)
	}
	if int(got) != wantViolating {
		f.t.Errorf("%s: want %d violations, got %g", what, wantViolating, got)
	}
}

func runningPod(namespace, name, node string) *corev1.Pod {
	return st.MakePod().Namespace(namespace).Name(name).UID(namespace + "/" + name).Node(node).Phase(corev1.PodRunning).Obj()
}

func TestMonitorFindsAPodWhereverItComesFrom(t *testing.T) {
	tests := []struct {
		name          string
		tenants       config.TenantPolicy
		pod           *corev1.Pod
		wantViolation bool
	}{
		{name: "on its tenant's node", tenants: config.TenantsConfined, pod: runningPod("blue", "p", "blue")},
		{name: "on another tenant's node", tenants: config.TenantsConfined, pod: runningPod("blue", "p", "red"), wantViolation: true},
		{name: "on another tenant's node, under Free", tenants: config.TenantsFree, pod: runningPod("blue", "p", "red"), wantViolation: true},
		{name: "confined, but on a shared node", tenants: config.TenantsConfined, pod: runningPod("blue", "p", "shared"), wantViolation: true},
		{name: "free, and on a shared node", tenants: config.TenantsFree, pod: runningPod("blue", "p", "shared")},
		{name: "without a tenant on a shared node", tenants: config.TenantsConfined, pod: runningPod("none", "p", "shared")},
		{name: "without a tenant on a tenant's node", tenants: config.TenantsFree, pod: runningPod("none", "p", "red"), wantViolation: true},
		{name: "of an exempt namespace", tenants: config.TenantsConfined, pod: runningPod("kube-system", "p", "red")},
		{name: "without a node", tenants: config.TenantsConfined, pod: st.MakePod().Namespace("blue").Name("p").UID("p").Obj()},
		{name: "succeeded", tenants: config.TenantsConfined, pod: st.MakePod().Namespace("blue").Name("p").UID("p").Node("red").Phase(corev1.PodSucceeded).Obj()},
		{name: "failed", tenants: config.TenantsConfined, pod: st.MakePod().Namespace("blue").Name("p").UID("p").Node("red").Phase(corev1.PodFailed).Obj()},
		{name: "on a node that is not known", tenants: config.TenantsConfined, pod: runningPod("blue", "p", "unknown")},
		{name: "in a namespace that is not known", tenants: config.TenantsConfined, pod: runningPod("unknown", "p", "red")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newMonitorFixture(t, tt.tenants, "kube-system")
			f.node("shared", "-")
			f.node("blue", "blue")
			f.node("red", "red")
			f.namespace("blue", "1", "blue")
			f.namespace("none", "2", "-")
			f.namespace("kube-system", "3", "-")
			f.monitor.podHandler().OnAdd(tt.pod, false)
			if tt.wantViolation {
				f.check("after the pod", 1, "p on "+tt.pod.Spec.NodeName)
			} else {
				f.check("after the pod", 0)
			}
		})
	}
}

func TestMonitorFollowsChanges(t *testing.T) {
	f := newMonitorFixture(t, config.TenantsConfined)
	pods := f.monitor.podHandler()
	f.node("n", "blue")
	f.namespace("ns", "1", "blue")
	first, second := runningPod("ns", "first", "n"), runningPod("ns", "second", "n")
	pods.OnAdd(first, true)
	pods.OnAdd(second, false)
	f.check("all is well", 0)

	f.node("n", "red")
	f.check("the node got another tenant", 2, "first on n", "second on n")

	relabeled := first.DeepCopy()
	relabeled.Labels = map[string]string{"a": "b"}
	pods.OnUpdate(first, relabeled)
	f.node("n", "red")
	f.namespace("ns", "2", "blue")
	f.check("nothing new: nothing is reported twice", 2)

	f.namespace("ns", "3", "red")
	f.check("the namespace followed the node", 0)

	f.namespace("ns", "4", "-")
	f.check("the namespace lost its tenant", 2, "first on n", "second on n")

	f.node("n", "-")
	f.check("the node was given up", 0)

	f.namespace("ns", "5", "blue")
	f.check("confined, but on a shared node", 2, "first on n", "second on n")

	done := second.DeepCopy()
	done.Status.Phase = corev1.PodSucceeded
	pods.OnUpdate(second, done)
	f.check("a pod terminated", 1)

	f.deleteNode("n")
	f.check("the node is gone", 0)
	f.node("n", "red")
	f.check("the node is back, and is another tenant's", 1, "first on n")

	f.deleteNamespace("ns", "6")
	f.check("the namespace is gone", 0)
	f.namespace("ns", "7", "none")
	f.check("the namespace is back", 1, "first on n")

	pods.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/first", Obj: first})
	f.check("the pod is gone", 0)
}

// One violation that becomes another is reported again: the text is another one.
func TestMonitorReportsEveryKindOfViolation(t *testing.T) {
	f := newMonitorFixture(t, config.TenantsConfined)
	f.node("n", "red")
	f.namespace("ns", "1", "-")
	f.monitor.podHandler().OnAdd(runningPod("ns", "p", "n"), false)
	f.check("no tenant on a tenant's node", 1, "p on n")
	f.namespace("ns", "2", "blue")
	f.check("another tenant's node", 1, "p on n")
	f.node("n", "-")
	f.check("a shared node", 1, "p on n")
}

// A pod can be deleted and created again under its name while the watch is lost.
func TestMonitorSeesAReplacedPod(t *testing.T) {
	f := newMonitorFixture(t, config.TenantsConfined)
	f.node("red", "red")
	f.node("blue", "blue")
	f.namespace("ns", "1", "blue")
	old := runningPod("ns", "p", "red")
	f.monitor.podHandler().OnAdd(old, false)
	f.check("the first", 1, "p on red")
	replaced := runningPod("ns", "p", "blue")
	replaced.UID = "another"
	f.monitor.podHandler().OnUpdate(old, replaced)
	f.check("the second", 0)
	if got := len(f.monitor.pods); got != 1 {
		t.Errorf("want 1 pod watched, got %d", got)
	}
}

// What is watched is bounded by the pods that have a node.
func TestMonitorForgets(t *testing.T) {
	f := newMonitorFixture(t, config.TenantsConfined)
	f.namespace("ns", "1", "blue")
	f.node("n", "red")
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		pod := runningPod("ns", name, "n")
		pods = append(pods, pod)
		f.monitor.podHandler().OnAdd(pod, false)
	}
	f.check("all", 3, "a on n", "b on n", "c on n")
	for _, pod := range pods {
		f.monitor.podHandler().OnDelete(pod)
		f.monitor.podHandler().OnDelete(pod) // an informer does not, but nothing may break
	}
	f.check("none", 0)
	if len(f.monitor.pods)+len(f.monitor.byNode)+len(f.monitor.byNamespace) != 0 {
		t.Errorf("left behind: %v, %v, %v", f.monitor.pods, f.monitor.byNode, f.monitor.byNamespace)
	}
}

// From the API to the event and the gauge, through the informers that New uses.
func TestTenancyViolationIsReported(t *testing.T) {
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsConfined, "kube-system")}
	profile := startProfile(t, args, schedtest.Options{
		Name:       t.Name(),
		Nodes:      tenancyNodes(),
		Namespaces: tenancyNamespaces(),
		Pods:       []*corev1.Pod{runningPod("kube-system", "agent", "red"), runningPod("blue", "good", "blue")},
	})
	violations := func() int {
		got, err := testutil.GetGaugeMetricValue(tenancyViolations.WithLabelValues(t.Name()))
		if err != nil {
			t.Fatal(err)
		}
		return int(got)
	}
	nextEvent := func() string {
		t.Helper()
		var event string
		eventually(t, "there is an event", func() bool {
			select {
			case event = <-profile.Events:
				return true
			default:
				return false
			}
		})
		return event
	}
	const wayOut = " The pod keeps running: delete it so that its replacement is placed again, correct the label that is wrong, or exempt the namespace in LabelPresenceArgs.tenancy.exemptNamespaces."

	intruder := runningPod("blue", "intruder", "red")
	if _, err := profile.Client.CoreV1().Pods("blue").Create(t.Context(), intruder, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := `Warning TenancyViolation Node "red" belongs to another tenant (label "example.node-restriction.kubernetes.io/tenant") than namespace "blue" (label "example.com/tenant").` + wayOut
	if diff := cmp.Diff(want, nextEvent()); diff != "" {
		t.Errorf("Unexpected event (-want,+got):\n%s", diff)
	}
	eventually(t, "one violation is counted", func() bool { return violations() == 1 })

	// The node under a pod that was placed well is given up.
	node := makeNode("blue", nil)
	if _, err := profile.Client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want = `Warning TenancyViolation Node "blue" belongs to no tenant (no label "example.node-restriction.kubernetes.io/tenant"), and namespace "blue" does (label "example.com/tenant").` + wayOut
	if diff := cmp.Diff(want, nextEvent()); diff != "" {
		t.Errorf("Unexpected event (-want,+got):\n%s", diff)
	}
	eventually(t, "two violations are counted", func() bool { return violations() == 2 })

	// The namespace becomes the other tenant's: the intruder is at home now, and
	// the other pod still is on a shared node.
	namespace := makeNamespace("blue", "10", map[string]string{namespaceTenantKey: "red"})
	if _, err := profile.Client.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one violation is left", func() bool { return violations() == 1 })

	if err := profile.Client.CoreV1().Pods("blue").Delete(t.Context(), "good", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no violation is left", func() bool { return violations() == 0 })
}

func TestViolationNotes(t *testing.T) {
	compiled := newTenancy(makeTenancy(config.TenantsConfined), t.Name(), nil)
	pod := runningPod("ns", "p", "n")
	t.Run("no tenant on a tenant's node", func(t *testing.T) {
		note := violationNote(compiled, violation{pod: pod, node: makeNode("n", map[string]string{nodeTenantKey: "secret"}), reason: compiled.noTenant})
		want := `Node "n" belongs to a tenant (label "example.node-restriction.kubernetes.io/tenant" or taint "example.com/tenant-taint"), and namespace "ns" has none (no label "example.com/tenant").`
		if !strings.HasPrefix(note, want) {
			t.Errorf("want %q..., got %q", want, note)
		}
		if strings.Contains(note, "secret") {
			t.Errorf("the note tells another tenant's name: %q", note)
		}
	})
	t.Run("names of the greatest length", func(t *testing.T) {
		args := makeTenancy(config.TenantsConfined)
		args.NodeLabelKey = strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)
		args.NamespaceLabelKey = strings.Repeat("c", 253) + "/" + strings.Repeat("d", 63)
		long := newTenancy(args, t.Name(), nil)
		note := violationNote(long, violation{pod: pod, node: makeNode(strings.Repeat("n", 253), nil), reason: long.otherTenant})
		if len(note) != messages.Limit {
			t.Errorf("want %d bytes, got %d", messages.Limit, len(note))
		}
	})
}
