// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
)

// check answers a health endpoint: nil is healthy.
type check func(*http.Request) error

// serve answers /metrics, /healthz and /readyz at the address until ctx is
// done. It returns once the address is taken, so that an address in use is an
// error at start.
func serve(ctx context.Context, address string, gatherer metrics.Gatherer, healthy, ready check) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf(`--http-bind-address=%s: %w (choose another, or "0" to serve nothing)`, address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.HandlerFor(gatherer, metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError}))
	mux.Handle("/healthz", handler(healthy))
	mux.Handle("/readyz", handler(ready))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	logger := klog.FromContext(ctx)
	logger.Info("Serving metrics and health", "address", listener.Addr().String())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Stopped serving metrics and health")
		}
	}()
	return nil
}

// handler turns a check into an endpoint.
func handler(c check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}
