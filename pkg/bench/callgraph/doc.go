// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package callgraph says which pods call which Services, and how many of their
// calls stay within a node and within a zone: what placing pods near the Services
// that they talk to is worth.
//
// Read finds who calls whom in Deployments: a container that names a Service in an
// environment variable, as "cart:7070" or "http://cart/", calls it. Graph.Share
// follows the calls from where the caller's pods are to the Service's ready pods,
// under one of the ways in which kube-proxy routes.
//
// Calls are not measured but assumed, in one way for every scheduler: each pod
// that calls anybody makes the same number of calls, evenly over the Services that
// it names, and kube-proxy spreads them evenly over the endpoints that it uses.
//
// The package is pure: it reads API objects and talks to nobody.
package callgraph
