// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/pkg/controlplane"
)

const (
	// perNodeTimeout is what each node adds to the time that kwok may take.
	perNodeTimeout = 50 * time.Millisecond
	// probeNode is the planned name of the node that Prepare creates.
	probeNode = "probe"
)

// kwokAdvice is what to do about a cluster without kwok.
const kwokAdvice = `kwok does not run in this cluster, or does not manage nodes annotated ` + fakeNodeAnnotation + ": " + fakeNode + `. Install it with
  kubectl apply -f https://github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok.yaml
  kubectl apply -f https://github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/stage-fast.yaml
or leave out --kubeconfig to run on a local cluster, which has it`

// checkKwok creates the node for Probe and waits until kwok has made it ready.
func (e *Environment) checkKwok(ctx context.Context) error {
	return e.createNodes(ctx, []corev1.Node{*sampleNode()})
}

// sampleNode is the planned node that Prepare creates.
func sampleNode() *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1"),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: probeNode},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

// CreateNodes creates the planned nodes, marked as the run's, and returns when each
// of them is ready and offers what the plan says. The nodes' names in the cluster
// are those that NodeName returns.
func (e *Environment) CreateNodes(ctx context.Context, nodes []corev1.Node) error {
	if !e.exclusive {
		// The one for Probe has done its work.
		if err := e.DeleteNodes(ctx); err != nil {
			return err
		}
	}
	e.progress(fmt.Sprintf("creating %d fake nodes", len(nodes)))
	return e.createNodes(ctx, nodes)
}

func (e *Environment) createNodes(ctx context.Context, planned []corev1.Node) error {
	nodes := make([]*corev1.Node, len(planned))
	for i := range planned {
		var err error
		if nodes[i], err = e.adoptNode(&planned[i]); err != nil {
			return err
		}
	}
	creating, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failure error
	workqueue.ParallelizeUntil(creating, workers, len(nodes), func(i int) {
		_, err := e.client.CoreV1().Nodes().Create(creating, nodes[i], metav1.CreateOptions{})
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if failure == nil { // the others fail alike, or because of it
			failure = fmt.Errorf("creating node %s: %w", nodes[i].Name, err)
			cancel()
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failure != nil {
		return failure
	}
	return e.awaitNodes(ctx, nodes)
}

// awaitNodes waits until every node takes pods.
func (e *Environment) awaitNodes(ctx context.Context, nodes []*corev1.Node) error {
	planned := make(map[string]*corev1.Node, len(nodes))
	waiting := sets.New[string]()
	for _, node := range nodes {
		planned[node.Name] = node
		waiting.Insert(node.Name)
	}
	if waiting.Len() == 0 {
		return nil
	}
	timeout := e.timeout + time.Duration(len(nodes))*perNodeTimeout
	watching, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lw := cache.NewFilteredListWatchFromClient(e.client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll, func(options *metav1.ListOptions) {
		options.LabelSelector = e.selector().LabelSelector
	})
	_, err := watchtools.UntilWithSync(watching, lw, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		node, ok := event.Object.(*corev1.Node)
		if !ok || !waiting.Has(node.Name) {
			return false, nil
		}
		if event.Type == watch.Deleted {
			return false, fmt.Errorf("node %s has been deleted by somebody else", node.Name)
		}
		if !controlplane.NodeUsable(node) {
			return false, nil
		}
		if err := checkOffer(planned[node.Name], node); err != nil {
			return false, err
		}
		waiting.Delete(node.Name)
		return waiting.Len() == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(watching.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%d of %d fake nodes are not ready after %v, among them %s: %s", waiting.Len(), len(nodes), timeout, sets.List(waiting)[0], kwokAdvice)
	default:
		return fmt.Errorf("waiting for the fake nodes: %w", err)
	}
}

// checkOffer says whether a node offers what was planned. Stages of kwok may
// overwrite it.
func checkOffer(planned, node *corev1.Node) error {
	for name, want := range planned.Status.Allocatable {
		if got := node.Status.Allocatable[name]; got.Cmp(want) != 0 {
			return fmt.Errorf("node %s offers %s %s, and the plan says %s: a Stage of kwok in this cluster overwrites status.allocatable: use those of kwok's stage-fast.yaml",
				node.Name, got.String(), name, want.String())
		}
	}
	return nil
}
