// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

const (
	hostname = "kubernetes.io/hostname"
	zone     = "topology.kubernetes.io/zone"

	with    = "berth.dev/colocate-with"
	prefer  = "berth.dev/colocate-topology-keys"
	require = "berth.dev/colocate-required-topology-key"
	allow   = "berth.dev/allow-colocation-from"
)

// newArgs are the defaults; change fills in what a test wants.
func newArgs(change ...func(*config.ColocationArgs)) *config.ColocationArgs {
	args := &config.ColocationArgs{TopologyKeys: []string{hostname, zone}}
	for _, c := range change {
		c(args)
	}
	return args
}

func withRules(rules ...config.ColocationRule) func(*config.ColocationArgs) {
	return func(args *config.ColocationArgs) {
		for i := range rules {
			if rules[i].Weight == 0 {
				rules[i].Weight = 1
			}
		}
		args.Rules = rules
	}
}

// near is a rule's list of Services, of weight 1.
func near(services ...string) []config.ColocationService {
	var list []config.ColocationService
	for _, name := range services {
		list = append(list, config.ColocationService{Name: name, Weight: 1})
	}
	return list
}

func appSelector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// newProfile builds a profile with the plugin. Its informers do not run yet.
func newProfile(tb testing.TB, args *config.ColocationArgs, opts schedtest.Options) (*schedtest.Profile, *Colocation) {
	tb.Helper()
	profile, err := schedtest.NewProfile(tb.Context(), tb, Name, New, args, opts)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	return profile, profile.Plugin.(*Colocation)
}

// startProfile builds a profile with the plugin, runs its informers, and returns
// when the index has seen everything.
func startProfile(tb testing.TB, args *config.ColocationArgs, opts schedtest.Options) (*schedtest.Profile, *Colocation) {
	tb.Helper()
	profile, pl := newProfile(tb, args, opts)
	profile.Start(tb.Context(), tb)
	if err := plugin.WaitForSync(tb.Context(), pl.instance.synced...); err != nil {
		tb.Fatal(err)
	}
	return profile, pl
}

// makeNode is a node in a zone; none if the zone is empty.
func makeNode(name, inZone string) *corev1.Node {
	node := st.MakeNode().Name(name).Label(hostname, name).Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "32Gi", "pods": "110"}).Obj()
	if inZone != "" {
		node.Labels[zone] = inZone
	}
	return node
}

// threeZones are nodes a1, a2, b1, b2, c1, c2 in zones a, b and c.
func threeZones() []*corev1.Node {
	var nodes []*corev1.Node
	for _, name := range []string{"a1", "a2", "b1", "b2", "c1", "c2"} {
		nodes = append(nodes, makeNode(name, name[:1]))
	}
	return nodes
}

// makePod is a pod of the namespace shop with the label app. on is its node, empty
// for a pending one.
func makePod(name, app, on string) *corev1.Pod {
	pod := st.MakePod().Namespace("shop").Name(name).UID(name).Label("app", app).SchedulerName("berth-scheduler").Node(on).Obj()
	pod.ResourceVersion = "1"
	return pod
}

// asking is a pending pod of app frontend with the annotations, key and value in
// turn.
func asking(annotations ...string) *corev1.Pod {
	return annotated(makePod("pending", "frontend", ""), annotations...)
}

// annotated returns the object with more annotations, key and value in turn.
func annotated[T metav1.Object](object T, annotations ...string) T {
	all := maps.Clone(object.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	object.SetAnnotations(all)
	return object
}

// makeService selects the pods with the label app of its own name.
func makeService(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("service-" + namespace + "-" + name), ResourceVersion: "1"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}},
	}
}

func makeNamespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("namespace-" + name), ResourceVersion: "1", Labels: labels}}
}

func objects(all ...runtime.Object) []runtime.Object { return all }

// runPreFilter runs PreFilter and returns what it left, its result and its status.
func runPreFilter(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) (fwk.CycleState, *fwk.PreFilterResult, *fwk.Status) {
	tb.Helper()
	state := framework.NewCycleState()
	result, status, _ := profile.RunPreFilterPlugins(tb.Context(), state, pod)
	return state, result, status
}

// passing returns the names of the nodes that pass Filter.
func passing(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) map[string]bool {
	tb.Helper()
	verdicts, status := profile.Filter(tb.Context(), tb, pod)
	if status != nil {
		tb.Fatalf("PreFilter: %v", status)
	}
	pass := map[string]bool{}
	for node, reason := range verdicts {
		if reason == "" {
			pass[node] = true
		}
	}
	return pass
}

// store puts an object into an informer's store, as the informer does before it tells
// its handlers, which are not told.
func store(tb testing.TB, informer cache.SharedIndexInformer, object any) {
	tb.Helper()
	if err := informer.GetStore().Update(object); err != nil {
		tb.Fatal(err)
	}
}

// attempt runs an attempt to schedule the pod as far as Reserve, which is run if a
// node passes. It reports whether one does.
func attempt(tb testing.TB, profile *schedtest.Profile, pod *corev1.Pod) bool {
	tb.Helper()
	state := framework.NewCycleState()
	_, status, _ := profile.RunPreFilterPlugins(tb.Context(), state, pod)
	if status.IsSuccess() {
		nodes := profile.Nodes(tb)
		for _, node := range nodes {
			if profile.RunFilterPlugins(tb.Context(), state, pod, node).IsSuccess() {
				return profile.RunReservePluginsReserve(tb.Context(), state, pod, node.Node().Name).IsSuccess()
			}
		}
	}
	return false
}

// happen brings a change of an object from old to updated, either nil, into the store
// of the informer, and returns it as an event has it.
func happen[T any, P interface {
	*T
	metav1.Object
}](tb testing.TB, informer cache.SharedIndexInformer, old, updated P,
) (oldObj, newObj any) {
	tb.Helper()
	if old != nil {
		oldObj = old
	}
	if updated != nil {
		store(tb, informer, updated)
		return oldObj, updated
	}
	if err := informer.GetStore().Delete(old); err != nil {
		tb.Fatal(err)
	}
	return oldObj, nil
}
