// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

const (
	// perNodeTimeout is what each node adds to the time that kwok may take.
	perNodeTimeout = 50 * time.Millisecond
	// nodePollInterval is how often all nodes are looked at: thousands are much to read.
	nodePollInterval = time.Second
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
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, node := range nodes {
		group.Go(func() error {
			if _, err := e.client.CoreV1().Nodes().Create(creating, node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		err = e.awaitNodes(ctx, nodes)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// awaitNodes waits until every node takes pods.
func (e *Environment) awaitNodes(ctx context.Context, planned []*corev1.Node) error {
	timeout := e.timeout + time.Duration(len(planned))*perNodeTimeout
	var waiting []string
	err := wait.PollUntilContextTimeout(ctx, nodePollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		list, err := e.client.CoreV1().Nodes().List(ctx, e.selector())
		if err != nil {
			return false, err
		}
		nodes := make(map[string]*corev1.Node, len(list.Items))
		for i := range list.Items {
			nodes[list.Items[i].Name] = &list.Items[i]
		}
		waiting = nil
		for _, want := range planned {
			node := nodes[want.Name]
			if node == nil || !localcluster.NodeUsable(node) {
				waiting = append(waiting, want.Name)
			} else if err := checkOffer(want, node); err != nil {
				return false, err
			}
		}
		return len(waiting) == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case wait.Interrupted(err) && len(waiting) > 0:
		return fmt.Errorf("%d of %d fake nodes are not ready after %v, among them %s: %s", len(waiting), len(planned), timeout, waiting[0], kwokAdvice)
	}
	return fmt.Errorf("waiting for the fake nodes: %w", err)
}

// checkOffer says whether a node offers what was planned. Stages of kwok may
// overwrite it.
func checkOffer(planned, node *corev1.Node) error {
	for name, want := range planned.Status.Allocatable {
		if got := node.Status.Allocatable[name]; got.Cmp(want) != 0 {
			return fmt.Errorf("node %s offers %s %s, and the plan says %s: a kwok Stage in this cluster overwrites status.allocatable; use the Stages in kwok's stage-fast.yaml",
				node.Name, got.String(), name, want.String())
		}
	}
	return nil
}
