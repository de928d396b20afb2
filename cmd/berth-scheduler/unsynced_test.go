// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// TestNameUnsynced has one resource that cannot be listed, as with a right that
// nobody thought of. The informers start after the watch over them, as they do in
// the scheduler.
func TestNameUnsynced(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("nodes is forbidden")
	})
	client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, errors.New("nodes is forbidden")
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Nodes().Informer()
	factory.Core().V1().Pods().Informer()

	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		nameUnsynced(ctx, 50*time.Millisecond, reached, factory, nil)
	}()
	factory.Start(ctx.Done())

	logged := logger.GetSink().(ktesting.Underlier).GetBuffer()
	for !strings.Contains(logged.String(), `resources=["v1.Node"]`) {
		select {
		case <-ended:
			t.Fatalf("it gave up before it named the node informer; the log is\n%s", logged.String())
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("out of time")
		}
	}
	cancel()
	<-ended
	factory.Shutdown()
}

// reached is an API server that answers.
func reached() error { return nil }

// TestNameUnsyncedEnds: when everything has filled there is nothing to say.
func TestNameUnsyncedEnds(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	factory.Core().V1().Pods().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))

	nameUnsynced(klog.NewContext(t.Context(), logger), time.Millisecond, reached, factory, nil)
	if logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); logged != "" {
		t.Errorf("unexpected log:\n%s", logged)
	}
}
