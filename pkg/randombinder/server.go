// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	apiserver "k8s.io/apiserver/pkg/server"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
)

// shutdownPatience is how long a request that is being answered may take at the end.
const shutdownPatience = 5 * time.Second

// check answers a health endpoint: nil is healthy.
type check func(*http.Request) error

// serve answers /metrics, /healthz and /readyz over HTTPS until ctx is done. Who
// asks for /metrics must be known to the API server, and allowed to; the other two
// answer anybody. It returns once the address is taken, so that an address in use
// is an error at start.
func serve(ctx context.Context, options *Options, gatherer metrics.Gatherer, healthy, ready check) error {
	serving, port := options.SecureServing, options.SecureServing.BindPort
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	var info *apiserver.SecureServingInfo
	if err := serving.ApplyTo(&info); err != nil {
		return fmt.Errorf("--secure-port=%d: %w (choose another, or 0 to serve nothing)", port, err)
	}

	authentication := apiserveroptions.NewDelegatingAuthenticationOptions()
	authentication.RemoteKubeConfigFile, authentication.RemoteKubeConfigFileOptional = options.Kubeconfig, true
	authentication.TolerateInClusterLookupFailure = true
	var who apiserver.AuthenticationInfo
	if err := authentication.ApplyTo(&who, info, nil); err != nil {
		return fmt.Errorf("finding out who reads /metrics: %w", err)
	}
	authorization := apiserveroptions.NewDelegatingAuthorizationOptions().WithAlwaysAllowPaths("/healthz", "/readyz")
	authorization.RemoteKubeConfigFile, authorization.RemoteKubeConfigFileOptional = options.Kubeconfig, true
	var may apiserver.AuthorizationInfo
	if err := authorization.ApplyTo(&may); err != nil {
		return fmt.Errorf("finding out who may read /metrics: %w", err)
	}

	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.HandlerFor(gatherer, metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError}))
	mux.Handle("/healthz", handler(healthy))
	mux.Handle("/readyz", handler(ready))
	// The chain of kube-scheduler.
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	chain := genericapifilters.WithAuthorization(mux, may.Authorizer, codecs)
	chain = genericapifilters.WithAuthentication(chain, who.Authenticator, genericapifilters.Unauthorized(codecs), nil, nil)
	chain = genericapifilters.WithRequestInfo(chain, &apirequest.RequestInfoFactory{})
	chain = genericapifilters.WithCacheControl(chain)
	if _, _, err := info.Serve(chain, shutdownPatience, ctx.Done()); err != nil {
		return fmt.Errorf("serving metrics and health: %w", err)
	}
	klog.FromContext(ctx).Info("Serving metrics and health", "address", info.Listener.Addr().String())
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
