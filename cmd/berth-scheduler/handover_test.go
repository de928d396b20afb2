// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// slowBinder binds when it is told to.
type slowBinder struct {
	framework.Framework

	begun  chan struct{}
	answer chan struct{}
}

func (b slowBinder) RunBindPlugins(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	close(b.begun)
	select {
	case <-b.answer:
		return nil
	case <-ctx.Done():
		return fwk.AsStatus(ctx.Err())
	}
}

// TestEndBindings: a Binding that has begun is answered although its context has ended,
// the end waits for it, and no other begins.
func TestEndBindings(t *testing.T) {
	b := &bindings{}
	slow := slowBinder{begun: make(chan struct{}), answer: make(chan struct{})}
	profile := bindingProfile{Framework: slow, bindings: b, patience: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	status := make(chan *fwk.Status, 1)
	go func() { status <- profile.RunBindPlugins(ctx, nil, nil, "") }()
	<-slow.begun
	cancel()
	if err := profile.RunBindPlugins(ctx, nil, nil, "").AsError(); !errors.Is(err, errEnding) {
		t.Errorf("a Binding after the end was asked for: got %v, want %v", err, errEnding)
	}
	if err := b.end(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the end without time to wait: got %v, want %v", err, context.Canceled)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.end(t.Context()) }()
	close(slow.answer)
	if err := (<-status).AsError(); err != nil {
		t.Errorf("the Binding on its way: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := profile.RunBindPlugins(t.Context(), nil, nil, "").AsError(); !errors.Is(err, errEnding) {
		t.Errorf("a Binding after the end: got %v, want %v", err, errEnding)
	}
}

// TestEndBindingsPatience: a Binding that is not answered ends when patience is over.
func TestEndBindingsPatience(t *testing.T) {
	slow := slowBinder{begun: make(chan struct{}), answer: make(chan struct{})}
	profile := bindingProfile{Framework: slow, bindings: &bindings{}, patience: time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-slow.begun
		cancel()
	}()
	if err := profile.RunBindPlugins(ctx, nil, nil, "").AsError(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
