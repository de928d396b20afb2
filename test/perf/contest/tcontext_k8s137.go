// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package contest

import "k8s.io/kubernetes/test/utils/client-go/ktesting"

// tContext is what scheduler_perf hands to its observers.
type tContext = ktesting.TContext
