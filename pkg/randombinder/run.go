// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

// Run is the whole random-scheduler process: it checks that the credential has the
// rights that it needs, serves health and metrics, and binds pods until ctx is done.
// It returns nil then. The options must be valid.
func Run(ctx context.Context, config *rest.Config, options *Options) error {
	// Each client has a rate limit of its own: events do not hold up Bindings.
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "bind"))
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	eventsClient, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "events"))
	if err != nil {
		return fmt.Errorf("creating a client for events: %w", err)
	}
	if err := preflight.Check(ctx, client, options.rights()); err != nil {
		return err
	}
	seed := cmp.Or(options.Seed, rand.Uint64())
	klog.FromContext(ctx).Info("Choosing nodes at random", "seed", seed)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: eventsClient.EventsV1()})
	defer broadcaster.Shutdown()
	b := newBinder(client, broadcaster.NewRecorder(scheme.Scheme, options.SchedulerName), options, newRand(seed))
	if options.BindAddress != "" {
		if err := serve(ctx, options.BindAddress, b); err != nil {
			return err
		}
	}
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	b.run(ctx)
	return nil
}

// newRand returns the source of the binder's choices: the same seed gives the
// same sequence on every platform.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// rights returns what the API server must let the binder do.
func (o *Options) rights() []preflight.Right {
	own := o.Namespaces
	if len(own) == 0 {
		own = []string{metav1.NamespaceAll}
	}
	var rights []preflight.Right
	need := func(right preflight.Right, namespaces []string, verbs ...string) {
		for _, right.Namespace = range namespaces {
			rights = append(rights, preflight.Expand(right, verbs...)...)
		}
	}
	need(preflight.Right{Resource: "nodes", Why: "without it no node is ever feasible"}, []string{metav1.NamespaceAll}, "list", "watch")
	need(preflight.Right{Resource: "pods", Why: "without it no pod is seen"}, o.watchedNamespaces(), "list", "watch")
	need(preflight.Right{Resource: "pods", Subresource: "binding", Why: "without it no pod is bound"}, own, "create")
	need(preflight.Right{Resource: "pods", Subresource: "status", Why: "without it a pod does not say why it is pending"}, own, "patch")
	need(preflight.Right{Group: "events.k8s.io", Resource: "events", Why: "without it a pod's events are missing"}, own, "create", "patch")
	return rights
}

// serve answers /metrics, /healthz and /readyz over HTTP until ctx is done. It returns
// once the address is taken, so that an address in use is an error at start.
func serve(ctx context.Context, address string, b *binder) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--bind-address=%s: %w (choose another, or an empty one to serve nothing)", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, b.registry},
		metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError}))
	healthz.InstallPathHandler(mux, "/healthz")
	healthz.InstallPathHandler(mux, "/readyz", healthz.NamedCheck("binder", func(*http.Request) error {
		if !b.synced.Load() {
			return errors.New("still reading the first list of nodes and pods")
		}
		return nil
	}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Stopped serving metrics and health")
		}
	}()
	klog.FromContext(ctx).Info("Serving metrics and health", "address", listener.Addr().String())
	return nil
}
