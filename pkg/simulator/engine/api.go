// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// api stands in for the API server that plugins write to. It records Bindings, evictions
// and the status of PodGroups for the engine, which carries them out, keeps ResourceClaims,
// and refuses everything else by name: a plugin that needs more gets an error.
//
// It is built on the typed clientset that turns requests into actions, and opens no
// connection.
type api struct {
	fake.Clientset

	// mu guards what follows: preemption sends requests in parallel.
	mu   sync.Mutex
	sent requests
	// claims are the ResourceClaims, and patchPodStatus changes the status of a pod.
	claims         *claimStore
	patchPodStatus func(namespace, name string, patch []byte) error
}

// requests are what plugins, and the scheduler of PodGroups, have sent.
type requests struct {
	bindings []*corev1.Binding
	evicted  []types.NamespacedName
	// statusPatches are strategic merge patches of the PodGroup that is scheduled.
	statusPatches [][]byte
	// claims is whether ResourceClaims were written.
	claims bool
}

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
				a.sent.bindings = append(a.sent.bindings, binding)
				return true, binding, nil
			}
		case "list":
			// GPUDevice asks what its informer may have missed: nothing. Without a
			// resource version it takes its informer's word.
			return true, &corev1.PodList{}, nil
		case "delete":
			if request, ok := action.(clienttesting.DeleteAction); ok {
				a.sent.evicted = append(a.sent.evicted, types.NamespacedName{Namespace: request.GetNamespace(), Name: request.GetName()})
				return true, nil, nil
			}
		case "patch status":
			if request, ok := action.(clienttesting.PatchAction); ok {
				return true, &corev1.Pod{}, a.patchPodStatus(request.GetNamespace(), request.GetName(), request.GetPatch())
			}
		}
	}
	if action.GetResource().GroupResource() == resourcev1.Resource(claimResource) {
		a.sent.claims = a.sent.claims || verb != "get"
		answer, err = a.claims.serve(action)
		return true, answer, err
	}
	if request, ok := action.(clienttesting.PatchAction); ok && verb == "patch status" && action.GetResource().Resource == "podgroups" {
		a.sent.statusPatches = append(a.sent.statusPatches, request.GetPatch())
		return true, nil, nil
	}
	return true, nil, apierrors.NewMethodNotSupported(action.GetResource().GroupResource(), verb+" (the simulator has no API server)")
}

// take returns what was sent since the last call.
func (a *api) take() requests {
	a.ClearActions()
	a.mu.Lock()
	defer a.mu.Unlock()
	sent := a.sent
	a.sent = requests{}
	return sent
}
