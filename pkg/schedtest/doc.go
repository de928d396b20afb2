// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedtest runs a plugin in kube-scheduler's real framework, for the
// tests of plugins: a profile with that plugin alone, a snapshot of nodes, and
// informers fed by a client without a server. Only tests import it.
package schedtest
