// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compat is what the code of Kubernetes' scheduler asks for in one way in one
// minor release and in another way in the next. Berth is built on two of them: on the
// newer one as go.mod says, and with the build tag k8s136 and hack/k8s-1.36.mod on
// 1.36. Every other package is the same on both, but for the files that end in
// _k8s136.go and _k8s137.go: what they hold exists on one of the two alone.
package compat
