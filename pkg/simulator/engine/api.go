// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// api stands in for the API server that plugins write to. It takes Bindings and
// evictions down for the engine, which carries them out, and refuses everything
// else by name: a plugin that needs more than that gets an error and not a
// silence.
//
// It is built on the typed clientset that turns requests into actions; nothing is
// stored in it, and it opens no connection.
type api struct {
	fake.Clientset

	// mu guards what follows: preemption sends requests in parallel.
	mu       sync.Mutex
	bindings []*corev1.Binding
	evicted  []podKey
}

// podKey is the namespace and name of a pod.
type podKey struct{ namespace, name string }

func newAPI() *api {
	a := &api{}
	a.AddReactor("*", "*", a.serve)
	return a
}

// serve answers one request.
func (a *api) serve(action clienttesting.Action) (handled bool, answer runtime.Object, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	verb := action.GetVerb()
	if action.GetSubresource() != "" {
		verb += " " + action.GetSubresource()
	}
	if action.GetResource().GroupResource() == (schema.GroupResource{Resource: "pods"}) {
		switch verb {
		case "create binding":
			if binding, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding); ok {
				a.bindings = append(a.bindings, binding)
				return true, binding, nil
			}
		case "list":
			// GPUDevice asks what its informer may have missed: nothing. Without a
			// resource version it takes its informer's word.
			return true, &corev1.PodList{}, nil
		case "delete":
			if request, ok := action.(clienttesting.DeleteAction); ok {
				a.evicted = append(a.evicted, podKey{request.GetNamespace(), request.GetName()})
				return true, nil, nil
			}
		case "patch status":
			// A victim's condition, or a nomination that is over: nobody reads them.
			return true, &corev1.Pod{}, nil
		}
	}
	return true, nil, apierrors.NewMethodNotSupported(action.GetResource().GroupResource(), verb+" (the simulator has no API server)")
}

// takeBindings returns the Bindings that were sent since the last call.
func (a *api) takeBindings() []*corev1.Binding {
	a.ClearActions()
	a.mu.Lock()
	defer a.mu.Unlock()
	bindings := a.bindings
	a.bindings = nil
	return bindings
}

// takeEvicted returns the pods that were deleted since the last call.
func (a *api) takeEvicted() []podKey {
	a.ClearActions()
	a.mu.Lock()
	defer a.mu.Unlock()
	evicted := a.evicted
	a.evicted = nil
	return evicted
}
