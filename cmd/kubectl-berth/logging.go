// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// withErrorsOnly gives what runs in the context a logger that passes errors on and
// keeps quiet about the rest: what a scheduler tells its operator is not what was
// asked for here.
func withErrorsOnly(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.New(errorSink{klog.FromContext(ctx).GetSink()}))
}

// quietly gives what runs in the context a logger that says nothing: clients log what
// they try again, and what fails is returned.
func quietly(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// errorSink is a LogSink for which no level of information is enabled.
type errorSink struct{ logr.LogSink }

// Enabled implements logr.LogSink.
func (errorSink) Enabled(int) bool { return false }

// WithValues implements logr.LogSink.
func (s errorSink) WithValues(keysAndValues ...any) logr.LogSink {
	return errorSink{s.LogSink.WithValues(keysAndValues...)}
}

// WithName implements logr.LogSink.
func (s errorSink) WithName(name string) logr.LogSink {
	return errorSink{s.LogSink.WithName(name)}
}
