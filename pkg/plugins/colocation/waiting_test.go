// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// waitForWaking returns when the pod of asking is activated.
func waitForWaking(t *testing.T, profile *schedtest.Profile) {
	t.Helper()
	select {
	case name := <-profile.Activated:
		if name != "shop/pending" {
			t.Errorf("activated %s", name)
		}
	case <-time.After(schedtest.Patience):
		t.Fatal("the pod was not activated")
	}
}

// A Service, its EndpointSlices and a namespace's labels wake the pods that they
// may help, through informers and an API.
func TestChangesWakeThePodsThatWait(t *testing.T) {
	var (
		service    = makeService("shop", "backend")
		selectless = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backend", UID: "s", ResourceVersion: "1"}}
		slice      = &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "slice", UID: "slice", ResourceVersion: "1", Labels: map[string]string{discoveryv1.LabelServiceName: "backend"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: ptr.To("a1")}},
		}
		update = metav1.UpdateOptions{}
		create = metav1.CreateOptions{}
	)
	tests := []struct {
		name   string
		args   *config.ColocationArgs
		opts   schedtest.Options
		pod    *corev1.Pod
		change func(ctx context.Context, profile *schedtest.Profile) error
	}{
		{
			name: "the Service is created", args: newArgs(), pod: asking(with, "backend", require, zone),
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				_, err := profile.Client.CoreV1().Services("shop").Create(ctx, service, create)
				return err
			},
		},
		{
			name: "its selector changes", args: newArgs(), pod: asking(with, "backend", require, zone),
			opts: schedtest.Options{Objects: objects(selectless)},
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				changed := selectless.DeepCopy()
				changed.ResourceVersion, changed.Spec.Selector = "2", map[string]string{"app": "backend"}
				_, err := profile.Client.CoreV1().Services("shop").Update(ctx, changed, update)
				return err
			},
		},
		{
			name: "an endpoint arrives", args: newArgs(), pod: asking(with, "backend", require, zone),
			opts: schedtest.Options{Objects: objects(selectless)},
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				_, err := profile.Client.DiscoveryV1().EndpointSlices("shop").Create(ctx, slice, create)
				return err
			},
		},
		{
			name: "the owner of another namespace's Service allows it", args: newArgs(), pod: asking(with, "data/backend", require, zone),
			opts: schedtest.Options{
				Objects: objects(makeService("data", "backend")),
				Pods: []*corev1.Pod{func() *corev1.Pod {
					pod := makePod("db", "backend", "a1")
					pod.Namespace = "data"
					return pod
				}()},
			},
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				changed := annotated(makeService("data", "backend"), allow, "shop")
				changed.ResourceVersion = "2"
				_, err := profile.Client.CoreV1().Services("data").Update(ctx, changed, update)
				return err
			},
		},
		{
			name: "a namespaceSelector lets the pod go",
			args: newArgs(withRules(config.ColocationRule{NamespaceSelector: appSelector("x"), Services: near("missing"), RequiredTopologyKey: zone})), pod: asking(),
			opts: schedtest.Options{Namespaces: []*corev1.Namespace{makeNamespace("shop", map[string]string{"app": "x"})}},
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				changed := makeNamespace("shop", nil)
				changed.ResourceVersion = "2"
				_, err := profile.Client.CoreV1().Namespaces().Update(ctx, changed, update)
				return err
			},
		},
		{
			name: "the namespace arrives",
			args: newArgs(withRules(config.ColocationRule{NamespaceSelector: appSelector("x"), Services: near("missing"), RequiredTopologyKey: zone})), pod: asking(),
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				_, err := profile.Client.CoreV1().Namespaces().Create(ctx, makeNamespace("shop", nil), create)
				return err
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Nodes = threeZones()
			tt.opts.Pods = append(tt.opts.Pods, tt.pod, makePod("b1", "backend", "a1"))
			profile, _ := startProfile(t, tt.args, tt.opts)
			if attempt(t, profile, tt.pod) {
				t.Fatal("the pod is not rejected before")
			}
			if err := tt.change(t.Context(), profile); err != nil {
				t.Fatal(err)
			}
			waitForWaking(t, profile)
			// What woke the pod, PreFilter sees: it is never behind.
			if !attempt(t, profile, tt.pod) {
				t.Error("it was woken, and is rejected again")
			}
		})
	}
}

// fakeClock gives the plugin a clock that stands still.
func fakeClock(pl *Colocation) *clocktesting.FakeClock {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	pl.instance.clock = clock
	return clock
}

// woken returns how many pods are going to be woken by what has changed about a key.
func woken(pl *Colocation, key waitKey) int { return len(pl.instance.schedulable(key)) }

// A pod is woken once, when its backoff is over, however often the Service changes, and
// not at all if the change is undone by then.
func TestBackoff(t *testing.T) {
	pod := asking(with, "data/backend", require, zone)
	peer := makePod("b1", "backend", "a1")
	peer.Namespace = "data"
	forbidden, allowed := makeService("data", "backend"), annotated(makeService("data", "backend"), allow, "shop")
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{pod, peer}, Objects: objects(forbidden),
	})
	clock := fakeClock(pl)
	logger, _ := ktesting.NewTestContext(t)
	services := profile.SharedInformerFactory().Core().V1().Services().Informer()
	write := func(service *corev1.Service) {
		store(t, services, service)
		pl.instance.index.SyncService("data", "backend")
		for _, r := range pl.instance.schedulable(waitKey{"data", "backend"}) {
			pl.instance.activate(logger, r)
		}
	}
	activated := func(want int, when string) {
		t.Helper()
		if got := len(profile.Activated); got != want {
			t.Fatalf("%s: activated %d times, want %d", when, got, want)
		}
		for range want {
			<-profile.Activated
		}
	}
	for attempts, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		write(forbidden)
		if attempt(t, profile, pod) {
			t.Fatal("the pod does not wait")
		}
		for range 10 {
			write(allowed)
			write(forbidden)
		}
		write(allowed)
		clock.Step(wait - time.Millisecond)
		activated(0, fmt.Sprintf("within the backoff of attempt %d", attempts+1))
		clock.Step(time.Millisecond)
		activated(1, fmt.Sprintf("after that of attempt %d", attempts+1))
		for range 10 {
			write(forbidden)
			write(allowed)
		}
		clock.Step(time.Minute)
		activated(0, "after it was woken")
	}
	write(forbidden)
	attempt(t, profile, pod)
	write(allowed)
	write(forbidden)
	clock.Step(time.Minute)
	activated(0, "consent was withdrawn within the backoff")
	write(allowed)
	activated(1, "and is given again")
}

// A pod whose own labels have changed since its attempt, to no effect then, is asked
// about as it is: it may be the first of its group by what changes later.
func TestLabelsOfThePodAreCurrent(t *testing.T) {
	for _, tt := range []struct {
		name string
		// peers are there before, and labels are the pod's new ones.
		peers  []*corev1.Pod
		labels map[string]string
		// helped makes it the first, and reports whether the pod is woken.
		helped func(profile *schedtest.Profile, pl *Colocation, pod *corev1.Pod) bool
	}{
		{
			name: "a selector changes", labels: map[string]string{"app": "frontend", "tier": "new"},
			helped: func(profile *schedtest.Profile, pl *Colocation, _ *corev1.Pod) bool {
				selecting := version(makeService("shop", "backend"), 2)
				selecting.Spec.Selector = map[string]string{"tier": "new"}
				store(t, profile.SharedInformerFactory().Core().V1().Services().Informer(), selecting)
				pl.instance.index.SyncService("shop", "backend")
				return woken(pl, waitKey{"shop", "backend"}) > 0
			},
		},
		{
			name: "the last peer goes", labels: map[string]string{"app": "backend"}, peers: []*corev1.Pod{makePod("b1", "backend", "a1")},
			helped: func(profile *schedtest.Profile, pl *Colocation, pod *corev1.Pod) bool {
				logger, _ := ktesting.NewTestContext(t)
				old, _ := happen(t, profile.SharedInformerFactory().Core().V1().Pods().Informer(), makePod("b1", "backend", "a1"), nil)
				hint, err := pl.isSchedulableAfterPodChange(logger, pod, old, nil)
				return err == nil && hint == fwk.Queue
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := asking(with, "backend", require, zone)
			profile, pl := startProfile(t, newArgs(), schedtest.Options{
				Nodes: threeZones(), Pods: append(tt.peers, pod), Objects: objects(makeService("shop", "backend")),
			})
			fakeClock(pl)
			attempt(t, profile, pod)
			fail(t, profile, pl, pod)
			relabeled := version(pod.DeepCopy(), 2)
			relabeled.Labels = tt.labels
			old, updated := happen(t, profile.SharedInformerFactory().Core().V1().Pods().Informer(), pod, relabeled)
			logger, _ := ktesting.NewTestContext(t)
			if hint, err := pl.isSchedulableAfterPodChange(logger, pod, old, updated); err != nil || hint != fwk.QueueSkip {
				t.Fatalf("the labels alone: %v, %v", hint, err)
			}
			if !tt.helped(profile, pl, pod) {
				t.Error("the pod sleeps on")
			}
			if !attempt(t, profile, relabeled) {
				t.Error("the pod is rejected again")
			}
		})
	}
}

// Only pods that the plugin rejected in their last attempt are woken, and nobody is
// remembered for good.
func TestWhoWaits(t *testing.T) {
	pod := asking(with, "cache", require, zone)
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{pod, makePod("b1", "backend", "a1")}, Objects: objects(makeService("shop", "backend"), makeService("shop", "cache")),
	})
	waits := func(want bool, when string) {
		t.Helper()
		w := &pl.instance.waiting
		if got := w.rejectionOf(pod.UID) != nil; got != want || (len(w.of(waitKey{"shop", "cache"})) > 0) != want {
			t.Errorf("%s: waits %t, want %t", when, got, want)
		}
	}
	attempt(t, profile, pod)
	waits(true, "refused by PreFilter")
	attempt(t, profile, pod)
	waits(true, "refused again")

	// It can be near the backend, and fits on no node for the sake of another plugin.
	near := version(asking(with, "backend", require, zone), 2)
	profile.NewCycle(t.Context(), t, near)
	waits(false, "not rejected")
	if pl.instance.waiting.pods[pod.UID].attempts != 3 {
		t.Errorf("%d attempts are counted", pl.instance.waiting.pods[pod.UID].attempts)
	}
	attempt(t, profile, version(asking(with, "cache", require, zone), 3))
	waits(true, "refused once more")
	attempt(t, profile, version(asking(), 4))
	waits(false, "asks for nothing")
	attempt(t, profile, version(asking(with, "cache", require, zone), 5))
	bound := version(asking(with, "cache", require, zone), 6)
	bound.Spec.NodeName = "a1"
	pl.instance.podChanged(pod, bound)
	waits(false, "bound")
	// A pod that was deleted before its attempt got here.
	gone := asking(with, "cache", require, zone)
	gone.UID = "gone"
	attempt(t, profile, gone)
	if w := &pl.instance.waiting; len(w.pods)+len(w.rejected) > 0 {
		t.Errorf("%d pods are remembered under %d keys", len(w.pods), len(w.rejected))
	}
}

// What a pod asks for is read once of each version of it.
func TestAnnotationsAreReadOnce(t *testing.T) {
	pod := asking(with, "backend")
	profile, pl := startProfile(t, newArgs(), schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{pod}, Objects: objects(makeService("shop", "backend"))})
	attempt(t, profile, pod)
	first, err := pl.requestOf(pod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	again, err := pl.requestOf(pod.DeepCopy())
	if err != nil || &first.terms[0] != &again.terms[0] {
		t.Errorf("read twice (%v)", err)
	}
	changed, err := pl.requestOf(version(asking(with, "backend,cache"), 2))
	if err != nil || len(changed.terms[0].services) != 2 {
		t.Errorf("a new version was not read: %+v (%v)", changed, err)
	}
}

// When a pod is tried again tells its author nothing of a Service that does not let
// it near, and a write that changes no peer wakes nobody.
func TestWhatWakesNobody(t *testing.T) {
	const untouched = "example.com/note"
	backend := func(annotations ...string) *corev1.Service {
		return annotated(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "backend", UID: "s", ResourceVersion: "1"}}, annotations...)
	}
	slice := func(node string, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "data", Name: "slice", UID: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: "backend"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{NodeName: ptr.To(node), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}},
		}
	}
	here := version(slice("a1", true), 1)
	tests := []struct {
		name string
		// service and slice are what there is before, nil for none, and newService and
		// newSlice what they become; deleted is that the Service goes.
		service, newService *corev1.Service
		slice, newSlice     *discoveryv1.EndpointSlice
		deleted             bool
		want                bool
	}{
		{name: "a forbidden Service is created", slice: here, newService: backend()},
		{name: "deleted", slice: here, service: backend(), deleted: true},
		{name: "allows another namespace", slice: here, service: backend(), newService: version(backend(allow, "bank"), 2)},
		{name: "gets an endpoint", service: backend(), newSlice: here},
		{name: "there is no Service, but a slice of its name", newSlice: here},
		{name: "an allowed one is created", slice: here, newService: backend(allow, "shop"), want: true},
		{name: "an allowed one without endpoints is created: the reason changes", newService: backend(allow, "shop"), want: true},
		{name: "is allowed", slice: here, service: backend(), newService: version(backend(allow, "shop"), 2), want: true},
		{name: "is allowed, and has no endpoints: the reason changes", service: backend(), newService: version(backend(allow, "shop"), 2), want: true},
		{name: "is allowed no longer", slice: here, service: backend(allow, "shop"), newService: version(backend(), 2)},
		{name: "an allowed one is deleted", slice: here, service: backend(allow, "shop"), deleted: true},
		{name: "gets another annotation", slice: here, service: backend(allow, "shop"), newService: version(backend(allow, "shop", untouched, "x"), 2)},
		{name: "allows one more beside", slice: here, service: backend(allow, "shop"), newService: version(backend(allow, "shop,bank"), 2)},
		{name: "gets an endpoint that is allowed", service: backend(allow, "*"), newSlice: here, want: true},
		{name: "an endpoint becomes ready", service: backend(allow, "*"), slice: version(slice("a1", false), 1), newSlice: version(slice("a1", true), 2)},
		{name: "an endpoint moves within the zone", service: backend(allow, "*"), slice: here, newSlice: version(slice("a2", true), 2)},
		{name: "an endpoint moves to another zone", service: backend(allow, "*"), slice: here, newSlice: version(slice("b1", true), 2), want: true},
		{name: "the last endpoint goes", service: backend(allow, "*"), slice: here, newSlice: version(&discoveryv1.EndpointSlice{ObjectMeta: *here.ObjectMeta.DeepCopy()}, 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := asking(with, "data/backend", require, zone)
			opts := schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{pod}}
			if tt.service != nil {
				opts.Objects = append(opts.Objects, tt.service)
			}
			if tt.slice != nil {
				opts.Objects = append(opts.Objects, tt.slice)
			}
			profile, pl := startProfile(t, newArgs(), opts)
			fakeClock(pl) // nobody is woken while this looks
			attempt(t, profile, pod)
			fail(t, profile, pl, pod)
			if tt.newSlice != nil {
				happen(t, endpointSlices(profile.SharedInformerFactory()), tt.slice, tt.newSlice)
				pl.instance.index.SyncEndpointSlice("data", "slice")
			}
			if tt.newService != nil || tt.deleted {
				happen(t, profile.SharedInformerFactory().Core().V1().Services().Informer(), tt.service, tt.newService)
				pl.instance.index.SyncService("data", "backend")
			}
			if got := woken(pl, waitKey{"data", "backend"}) > 0; got != tt.want {
				t.Errorf("woken: want %t, got %t", tt.want, got)
			}
		})
	}
}

// The author of a pod is told once of what has no effect, and again when it is
// something else.
func TestWarnings(t *testing.T) {
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{asking(), makePod("b1", "backend", "a1")}, Objects: objects(makeService("shop", "backend")),
	})
	event := func(pod *corev1.Pod) string {
		t.Helper()
		if _, _, status := runPreFilter(t, profile, pod); !status.IsSuccess() {
			t.Fatalf("the pod is refused: %v", status)
		}
		select {
		case event := <-profile.Events:
			return event
		default:
			return ""
		}
	}
	const nobody = `Warning ColocationIgnored Service shop/missing has no effect: no Service of that name allows pods of namespace shop (check the name; a Service of another namespace needs the annotation berth.dev/allow-colocation-from)`
	const noLevel = `no node has the label "example.com/rack" of annotation berth.dev/colocate-topology-keys: correct the key, or label the nodes`
	steps := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{name: "nothing wrong", pod: asking(with, "backend")},
		{name: "a Service that does not exist", pod: asking(with, "missing"), want: nobody},
		{name: "the same again", pod: asking(with, "missing")},
		{name: "a level too", pod: asking(with, "missing", prefer, "example.com/rack,"+zone), want: nobody + "; " + noLevel},
		{name: "corrected", pod: asking(with, "backend")},
		{name: "wrong again", pod: asking(with, "missing"), want: nobody},
		{name: "only the level", pod: asking(with, "backend", prefer, "example.com/rack"), want: "Warning ColocationIgnored " + noLevel},
	}
	for i, step := range steps {
		if got := event(version(step.pod, i+1)); got != step.want {
			t.Errorf("%s: want %q, got %q", step.name, step.want, got)
		}
	}
	pl.instance.podChanged(asking(), nil)
	if n := len(pl.instance.waiting.pods); n > 0 {
		t.Errorf("%d pods are remembered", n)
	}
}

// What a rule names and nobody is behind is no business of the pods that the rule
// selects: they get no event, and the log has it once.
func TestRulesWarnNoPod(t *testing.T) {
	args := newArgs(withRules(config.ColocationRule{
		Services: near("shop/missing"), Weight: 1, TopologyKeys: []string{"example.com/rack"},
	}))
	profile, pl := startProfile(t, args, schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{asking()}})
	for range 2 {
		if _, _, status := runPreFilter(t, profile, asking()); !status.IsSuccess() && !status.IsSkip() {
			t.Fatalf("the pod is refused: %v", status)
		}
	}
	select {
	case event := <-profile.Events:
		t.Errorf("the author of the pod is told: %s", event)
	default:
	}
	for _, said := range []string{
		"no Service shop/missing of Colocation rules[0].services lets pods of namespace shop near it",
		`no node has the label "example.com/rack" of Colocation rules[0].topologyKeys`,
	} {
		if _, told := pl.instance.idle.Get(said); !told {
			t.Errorf("the log does not say: %s", said)
		}
	}
	if pl.instance.idle.Len() != 2 {
		t.Errorf("the log says %d things of rules", pl.instance.idle.Len())
	}
}

// PreFilter decides nothing before the index has seen what there is.
func TestPreFilterWaitsForTheIndex(t *testing.T) {
	profile, pl := newProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{makePod("b1", "backend", "a1")}, Objects: objects(makeService("shop", "backend")),
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := plugin.WaitForSync(ended, pl.instance.synced...); err == nil {
		t.Fatal("the index says that it is ready before the informers run")
	}
	verdict := make(chan bool)
	go func() {
		_, _, status := runPreFilter(t, profile, asking(with, "backend", require, zone))
		verdict <- status.IsSuccess()
	}()
	profile.Start(t.Context(), t)
	select {
	case ok := <-verdict:
		if !ok {
			t.Error("the pod waits for a peer that was there from the start")
		}
	case <-time.After(schedtest.Patience):
		t.Fatal("PreFilter does not return")
	}
	// A pod that asks for nothing waits for nothing.
	profile, _ = newProfile(t, newArgs(), schedtest.Options{Nodes: threeZones()})
	if !profile.Skips(t.Context(), t, asking()) {
		t.Error("a pod that asks for nothing is not skipped")
	}
}

// What Filter rejects is recorded where it happens, once, whoever else filters at the same
// time, and without a PostFilter, which members of a pod group do not have; and taken
// back when another node is reserved.
func TestFilterRecords(t *testing.T) {
	pod, peer := asking(with, "backend", require, hostname), makePod("b1", "backend", "a1")
	profile, pl := startProfile(t, newArgs(), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{pod, peer}, Objects: objects(makeService("shop", "backend")),
	})
	waits := func(want bool, when string) {
		t.Helper()
		w := &pl.instance.waiting
		if got := w.rejectionOf(pod.UID) != nil; got != want || (len(w.of(waitKey{"shop", "backend"})) > 0) != want {
			t.Errorf("%s: waits %t, want %t", when, got, want)
		}
	}
	nodes := map[string]fwk.NodeInfo{}
	for _, node := range profile.Nodes(t) {
		nodes[node.Node().Name] = node
	}
	filter := func(state fwk.CycleState, node string) bool {
		return profile.RunFilterPlugins(t.Context(), state, pod, nodes[node]).IsSuccess()
	}
	state := profile.NewCycle(t.Context(), t, pod)
	if !filter(state, "a1") {
		t.Fatal("the peer's node is rejected")
	}
	waits(false, "only nodes that pass")

	// Preemption tries what would be if the peer were gone.
	dryRun := state.Clone()
	podInfo, err := framework.NewPodInfo(peer)
	if err != nil {
		t.Fatal(err)
	}
	if status := profile.RunPreFilterExtensionRemovePod(t.Context(), dryRun, pod, podInfo, nodes["a1"]); !status.IsSuccess() {
		t.Fatal(status)
	}
	if filter(dryRun, "a1") {
		t.Fatal("a node passes without its peer")
	}
	waits(false, "a dry run without the peer")

	var group sync.WaitGroup
	for _, node := range []string{"a2", "b1", "b2", "c1", "c2"} {
		group.Go(func() {
			if filter(state, node) {
				t.Errorf("%s passes", node)
			}
		})
	}
	group.Wait()
	waits(true, "other nodes rejected")
	first := pl.instance.waiting.rejectionOf(pod.UID)
	filter(state, "b2")
	if pl.instance.waiting.rejectionOf(pod.UID) != first {
		t.Error("recorded again in the same attempt")
	}
	profile.RunReservePluginsReserve(t.Context(), state, pod, "a1")
	waits(false, "reserved")
}
