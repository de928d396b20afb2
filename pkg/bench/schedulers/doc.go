// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedulers brings schedulers into a benchmark: it finds their binaries and
// profiles, starts each as a process of its own on the benchmark's control plane,
// and reads what that process says about itself.
//
//	Find ---> Spec ---> Local.Start ---> Running: Sample as often as need be, Stop
//
// On a control plane of the benchmark's own, every scheduler has a credential of its
// own with the rights that manifests/ grants, and the same limit on its client's
// requests. Its configuration is the profile's file with clientConnection replaced
// and nothing else, but for the name of the one profile in it if it is to run under
// another name.
//
// BareBinder is no scheduler. It posts Bindings and does nothing else, which is as
// fast as anything can bind through this API server.
package schedulers
