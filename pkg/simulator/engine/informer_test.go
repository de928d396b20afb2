// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// TestInformer makes sure that every handler has been told of a change when the
// call that made it returns, and finds the change in the lister.
func TestInformer(t *testing.T) {
	set := newInformerSet(newAPI())
	pods := set.Core().V1().Pods()
	if pods.Informer().GetIndexer() != set.byResource["pods"].GetIndexer() {
		t.Fatal("The factory hands out another informer")
	}
	var events []string
	handler := func(name string) cache.ResourceEventHandlerDetailedFuncs {
		note := func(what string, obj any, lists int) {
			listed, err := pods.Lister().Pods("default").List(labels.Everything())
			if err != nil || len(listed) != lists {
				t.Errorf("%s: %d pods are listed, want %d (%v)", what, len(listed), lists, err)
			}
			events = append(events, name+" "+what+" "+obj.(*corev1.Pod).Name+" "+obj.(*corev1.Pod).Spec.NodeName)
		}
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(obj any, initial bool) {
				if initial {
					note("initial", obj, 1)
					return
				}
				note("add", obj, 2)
			},
			UpdateFunc: func(_, obj any) { note("update", obj, 2) },
			DeleteFunc: func(obj any) { note("delete", obj, 1) },
		}
	}
	register := func(name string) cache.ResourceEventHandlerRegistration {
		r, err := pods.Informer().AddEventHandler(handler(name))
		if err != nil {
			t.Fatal(err)
		}
		if !r.HasSynced() {
			t.Errorf("%s has not synced", name)
		}
		return r
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	informer := set.byResource["pods"]
	first := register("first")
	must(informer.set(makePod("a"), true))
	register("second") // is told of what is there
	must(informer.set(makePod("b"), false))
	must(informer.set(on(makePod("b"), "n"), false))
	must(pods.Informer().RemoveEventHandler(first))
	must(informer.remove(makePod("b")))
	must(informer.remove(makePod("b"))) // gone already
	want := []string{
		"first initial a ", "second initial a ", "first add b ", "second add b ",
		"first update b n", "second update b n", "second delete b n",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("Unexpected events (-want,+got):\n%s", diff)
	}
}

// TestInformersOfAllKinds makes sure that no plugin gets an informer that never
// fills.
func TestInformersOfAllKinds(t *testing.T) {
	set := newInformerSet(newAPI())
	for _, kind := range cluster.Supported() {
		generic, err := set.ForResource(kind.GroupVersion().WithResource(kind.Resource))
		if err != nil {
			t.Error(err)
			continue
		}
		if !generic.Informer().HasSynced() || generic.Informer().GetIndexer() != set.byResource[kind.Resource].GetIndexer() {
			t.Errorf("%s has an informer that is not ours", kind.Resource)
		}
	}
}

// TestAPI refuses by name what it does not serve.
func TestAPI(t *testing.T) {
	a := newAPI()
	ctx := t.Context()
	_, err := a.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
	if want := "get (the simulator has no API server) is not supported on resources of kind \"services\""; !apierrors.IsMethodNotSupported(err) || err.Error() != want {
		t.Errorf("Unexpected error %v", err)
	}
	if _, err := a.CoreV1().Pods("default").Update(ctx, makePod("p"), metav1.UpdateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("Unexpected error %v", err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: "n"}}
	if err := a.CoreV1().Pods("default").Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if got := a.take().bindings; len(got) != 1 || got[0].Target.Name != "n" || len(a.Actions()) != 0 {
		t.Errorf("Unexpected Bindings %+v", got)
	}
}
