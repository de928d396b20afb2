// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict says whether pods are where the rules of their schedulers
// allow, from API objects alone.
//
// It is a second opinion, so it shares no code with the schedulers that it
// judges: no plugin, no scheduler framework, not the random binder. A caller
// lists nodes, pods, deployments and events, declares in a few words what each
// schedulerName promises, and gets one judgement a pod.
//
// Shares of devices are counted up from the annotations of the pods, each device
// for itself, and held against what the pods ask for and the nodes say they have.
//
// What it cannot judge it does not pass: a pod with a constraint that this
// package does not know (required affinity, a volume claim, an init container with
// a share, ...) violates, with the field's name.
package verdict
