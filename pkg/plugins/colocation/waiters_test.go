// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
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
			name: "the Service is created", args: newArgs(waiting), pod: asking(with, "backend"),
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				_, err := profile.Client.CoreV1().Services("shop").Create(ctx, service, create)
				return err
			},
		},
		{
			name: "its selector changes", args: newArgs(waiting), pod: asking(with, "backend"),
			opts: schedtest.Options{Objects: objects(selectless)},
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				changed := selectless.DeepCopy()
				changed.ResourceVersion, changed.Spec.Selector = "2", map[string]string{"app": "backend"}
				_, err := profile.Client.CoreV1().Services("shop").Update(ctx, changed, update)
				return err
			},
		},
		{
			name: "an endpoint arrives", args: newArgs(waiting), pod: asking(with, "backend"),
			opts: schedtest.Options{Objects: objects(selectless)},
			change: func(ctx context.Context, profile *schedtest.Profile) error {
				_, err := profile.Client.DiscoveryV1().EndpointSlices("shop").Create(ctx, slice, create)
				return err
			},
		},
		{
			name: "the owner of another namespace's Service allows it", args: newArgs(waiting), pod: asking(with, "data/backend"),
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
			args: newArgs(waiting, withRules(config.ColocationRule{NamespaceSelector: appSelector("x"), Services: near("missing")})), pod: asking(),
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
			args: newArgs(withRules(config.ColocationRule{NamespaceSelector: appSelector("x"), Services: near("missing")})), pod: asking(),
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
			if _, _, status := runPreFilter(t, profile, tt.pod); status.IsSuccess() || status.IsSkip() {
				t.Fatalf("the pod is not refused before: %v", status)
			}
			if err := tt.change(t.Context(), profile); err != nil {
				t.Fatal(err)
			}
			waitForWaking(t, profile)
			// What woke the pod, PreFilter sees: it is never behind.
			if _, _, status := runPreFilter(t, profile, tt.pod); !status.IsSuccess() {
				t.Errorf("after it was woken: %v", status)
			}
		})
	}
}

// Only those who may be helped are woken, and nobody is remembered for good.
func TestWaiters(t *testing.T) {
	pod := asking(with, "backend,cache", require, zone)
	stranger := asking(with, "cache")
	stranger.Name, stranger.UID, stranger.Spec.SchedulerName = "stranger", "stranger", "nobody"
	profile, pl := startProfile(t, newArgs(waiting), schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{pod, stranger}})
	logger, _ := ktesting.NewTestContext(t)
	runPreFilter(t, profile, pod)
	service := makeService("shop", "backend")
	quiet := func(why string) {
		t.Helper()
		if len(profile.Activated) > 0 {
			t.Errorf("%s activated %s", why, <-profile.Activated)
		}
	}
	pl.instance.serviceChanged(logger, nil, makeService("shop", "other"))
	quiet("another Service")
	same := service.DeepCopy()
	same.ResourceVersion, same.Labels = "2", map[string]string{"a": "b"}
	pl.instance.serviceChanged(logger, service, same)
	quiet("a label of the Service")
	pl.instance.namespaceChanged(logger, makeNamespace("shop", nil), makeNamespace("shop", map[string]string{"a": "b"}))
	quiet("a namespace that no rule selects by")
	pl.instance.serviceChanged(logger, nil, makeService("shop", "cache"))
	waitForWaking(t, profile)

	// An attempt that asks for less is noted down for less.
	runPreFilter(t, profile, asking(with, "cache"))
	pl.instance.serviceChanged(logger, service, nil)
	quiet("a Service that is no longer named")
	// A pod of a profile that is not ours cannot be woken.
	runPreFilter(t, profile, stranger)
	pl.instance.podChanged(pod, nil)
	pl.instance.serviceChanged(logger, makeService("shop", "cache"), nil)
	quiet("a pod that is gone")
	bound := stranger.DeepCopy()
	bound.Spec.NodeName, bound.ResourceVersion = "a1", "2"
	pl.instance.podChanged(stranger, bound)
	// A pod that was deleted before its attempt got here.
	gone := asking(with, "cache", require, zone)
	gone.UID = "gone"
	runPreFilter(t, profile, gone)
	if n, keys := len(pl.instance.waiters.pods), len(pl.instance.waiters.under); n+keys > 0 {
		t.Errorf("%d pods are remembered under %d keys", n, keys)
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
			ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "slice", UID: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: "backend"}},
			Endpoints:  []discoveryv1.Endpoint{{NodeName: ptr.To(node), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}},
		}
	}
	tests := []struct {
		name string
		// service is what there is before, nil for none.
		service  *corev1.Service
		old, new *corev1.Service
		// oldSlice and newSlice change instead, where they are set.
		oldSlice, newSlice *discoveryv1.EndpointSlice
		want               bool
	}{
		{name: "a forbidden Service is created", new: backend()},
		{name: "deleted", service: backend(), old: backend()},
		{name: "allows another namespace", service: backend(), old: backend(), new: version(backend(allow, "bank"), 2)},
		{name: "gets an endpoint", service: backend(), newSlice: version(slice("a1", true), 1)},
		{name: "there is no Service, but a slice of its name", newSlice: version(slice("a1", true), 1)},
		{name: "an allowed one is created", new: backend(allow, "shop"), want: true},
		{name: "is allowed", service: backend(), old: backend(), new: version(backend(allow, "shop"), 2), want: true},
		{name: "is allowed no longer", service: backend(allow, "shop"), old: backend(allow, "shop"), new: version(backend(), 2), want: true},
		{name: "gets another annotation", service: backend(allow, "shop"), old: backend(allow, "shop"), new: version(backend(allow, "shop", untouched, "x"), 2)},
		{name: "gets an endpoint that is allowed", service: backend(allow, "*"), newSlice: version(slice("a1", true), 1), want: true},
		{name: "an endpoint becomes ready", service: backend(allow, "*"), oldSlice: version(slice("a1", false), 1), newSlice: version(slice("a1", true), 2)},
		{name: "an endpoint moves", service: backend(allow, "*"), oldSlice: version(slice("a1", true), 1), newSlice: version(slice("b1", true), 2), want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := asking(with, "data/backend")
			profile, pl := startProfile(t, newArgs(waiting), schedtest.Options{Nodes: threeZones(), Pods: []*corev1.Pod{pod}})
			logger, _ := ktesting.NewTestContext(t)
			if tt.service != nil {
				pl.instance.index.ApplyService(nil, tt.service)
			}
			runPreFilter(t, profile, pod)
			if tt.oldSlice != nil || tt.newSlice != nil {
				pl.instance.endpointsChanged(logger, tt.oldSlice, tt.newSlice)
			} else {
				pl.instance.serviceChanged(logger, tt.old, tt.new)
			}
			if got := len(profile.Activated) > 0; got != tt.want {
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
	const nobody = `Warning ColocationIgnored Service shop/missing attracts nobody: no Service of that name lets pods of namespace shop near it (check the name and, of another namespace's Service, its annotation berth.dev/allow-colocation-from)`
	const noLevel = `no node has the label "example.com/rack" of annotation berth.dev/colocate-prefer: correct the key, or label the nodes`
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
	for _, step := range steps {
		if got := event(step.pod); got != step.want {
			t.Errorf("%s: want %q, got %q", step.name, step.want, got)
		}
	}
	pl.instance.podChanged(asking(), nil)
	if n := len(pl.instance.warnings.told); n > 0 {
		t.Errorf("%d pods are remembered", n)
	}
}

// What a rule names and nobody is behind is no business of the pods that the rule
// selects: they get no event, and the log has it once.
func TestRulesWarnNoPod(t *testing.T) {
	args := newArgs(withRules(config.ColocationRule{
		Services: near("shop/missing"), Weight: 1, Prefer: []string{"example.com/rack"},
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
	want := map[string]struct{}{
		"no Service shop/missing of Colocation rules[0].services lets pods of namespace shop near it": {},
		`no node has the label "example.com/rack" of Colocation rules[0].prefer`:                      {},
	}
	if got := pl.instance.warnings.idle; !maps.Equal(got, want) {
		t.Errorf("said of rules: %v, want %v", got, want)
	}
	if pl.instance.warnings.tellIdle("no node has the label \"example.com/rack\" of Colocation rules[0].prefer") {
		t.Error("the same is news again")
	}
}

// PreFilter decides nothing before the index has seen what there is.
func TestPreFilterWaitsForTheIndex(t *testing.T) {
	profile, pl := newProfile(t, newArgs(waiting), schedtest.Options{
		Nodes: threeZones(), Pods: []*corev1.Pod{makePod("b1", "backend", "a1")}, Objects: objects(makeService("shop", "backend")),
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pl.instance.waitForSync(ended); err == nil {
		t.Fatal("the index says that it is ready before the informers run")
	}
	verdict := make(chan bool)
	go func() {
		_, _, status := runPreFilter(t, profile, asking(with, "backend"))
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

func TestIndexFollowsTheInformers(t *testing.T) {
	profile, pl := startProfile(t, newArgs(), schedtest.Options{Nodes: threeZones(), Objects: objects(makeService("shop", "backend"))})
	seen := func(node string) bool {
		view, ok := pl.instance.index.Lookup("shop", "shop", "backend")
		return ok && view.OnNode(node) > 0
	}
	until := func(what string, condition func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) { return condition(), nil })
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	pod := makePod("b1", "backend", "c1")
	if _, err := profile.Client.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("a pod is created", func() bool { return seen("c1") })
	if err := profile.Client.CoreV1().Nodes().Delete(t.Context(), "c1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("its node is deleted", func() bool { return !seen("c1") })
	if err := profile.Client.CoreV1().Pods("shop").Delete(t.Context(), "b1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("it is deleted", func() bool {
		view, ok := pl.instance.index.Lookup("shop", "shop", "backend")
		return ok && view.Total() == 0
	})
}
