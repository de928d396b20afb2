// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

// Rights returns what the API server must let a run do that works in this namespace:
// everything that this package asks of it, Clean included, and the pods and Services
// that a run creates. On an exclusive environment it is less.
func Rights(namespace string, exclusive bool) []preflight.Right {
	var rights []preflight.Right
	need := func(right preflight.Right, verbs ...string) {
		rights = append(rights, preflight.Expand(right, verbs...)...)
	}
	need(preflight.Right{Resource: "namespaces", Why: "a run works in a namespace of its own"}, "create", "get", "delete")
	need(preflight.Right{Resource: "nodes", Why: "a run works on fake nodes of its own"}, "create", "list", "delete")
	need(preflight.Right{Resource: "serviceaccounts", Namespace: namespace, Why: "shows when the namespace accepts pods"}, "get")
	need(preflight.Right{Resource: "pods", Namespace: namespace, Why: "the pods to schedule"}, "create", "get", "list", "watch", "delete")
	need(preflight.Right{Resource: "services", Namespace: namespace, Why: "the Services of the pods"}, "create", "list", "delete")
	need(preflight.Right{Resource: "events", Namespace: namespace, Why: "shows why a pod stays Pending"}, "list")
	if exclusive {
		return rights
	}
	need(preflight.Right{Resource: "events", Namespace: namespace, Why: "each round starts without those of the last one"}, "delete")
	need(preflight.Right{Group: coordinationv1.GroupName, Resource: "leases", Namespace: namespace, Why: "shows that the run is alive"}, "create", "get", "update")
	need(preflight.Right{Resource: "namespaces", Why: "shows when it is gone and which runs were killed"}, "list")
	need(preflight.Right{Resource: "events", Namespace: metav1.NamespaceDefault, Why: "removes the events about the fake nodes"}, "list", "delete")
	need(preflight.Right{Resource: "pods", Why: "finds pods that fake nodes affect, and deletes pods from fake nodes that tolerate every taint"}, "list", "delete")
	return rights
}

// checkRights asks for all rights and says, if any is missing, what to do.
func checkRights(ctx context.Context, client kubernetes.Interface, rights []preflight.Right) error {
	err := preflight.Check(ctx, client, slices.Clip(rights))
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*preflight.MissingRightsError](err); ok {
		return fmt.Errorf("%w\nuse a kubeconfig that has them, ask the cluster's administrator for them, or leave out --kubeconfig to run on a local cluster", err)
	}
	return err
}
