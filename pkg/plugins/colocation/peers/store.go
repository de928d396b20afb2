// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Store returns the objects as the informers have them, and nil for one that they
// do not have. The namespace of a node is empty. The functions are called while
// the index is locked: they must not call the index, and not wait for anybody who
// does. Nobody changes the objects that they return.
//
// An informer changes its store before it tells any handler, so a store is never
// behind the event that somebody passes on.
type Store struct {
	Pod           func(namespace, name string) *corev1.Pod
	Node          func(name string) *corev1.Node
	Service       func(namespace, name string) *corev1.Service
	EndpointSlice func(namespace, name string) *discoveryv1.EndpointSlice
}
