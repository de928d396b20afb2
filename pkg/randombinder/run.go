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
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/controller-manager/app"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

// Run is the whole random-scheduler process: it checks that the credential has the
// rights that it needs, serves health and metrics, waits to lead and binds pods until
// ctx is done. It returns nil then. The options must be valid.
func Run(ctx context.Context, config *rest.Config, options *Options) error {
	// Three clients, because each has a rate limit of its own: neither events
	// nor a queue of Bindings may keep the lease from being renewed.
	var clients [3]kubernetes.Interface
	for i, name := range []string{"bind", "events", "leader-election"} {
		config := rest.AddUserAgent(rest.CopyConfig(config), name)
		if name == "leader-election" {
			// A request that hangs must leave time for another one.
			config.Timeout = options.LeaderElection.RenewDeadline.Duration / 2
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("creating a client: %w", err)
		}
		clients[i] = client
	}
	bindClient, eventsClient, leaseClient := clients[0], clients[1], clients[2]

	seed := cmp.Or(options.Seed, rand.Uint64())
	klog.FromContext(ctx).Info("Choosing nodes at random", "seed", seed)

	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: eventsClient.EventsV1()})
	defer broadcaster.Shutdown()
	b := newBinder(bindClient, broadcaster.NewRecorder(scheme.Scheme, options.SchedulerName), options, newRand(seed))

	if err := preflight.Check(ctx, bindClient, options.rights()); err != nil {
		return err
	}
	watchdog := leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
	if options.SecureServing.BindPort != 0 {
		if err := serve(ctx, options, b, watchdog); err != nil {
			return err
		}
	}
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	if options.LeaderElection.LeaderElect {
		return lead(ctx, leaseClient, options, watchdog, b.run)
	}
	b.run(ctx)
	return nil
}

// newRand returns the source of the binder's choices: the same seed gives the
// same sequence on every platform.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// lead runs work while this process holds the lease, and names in the log the
// process that it waits for. It returns an error if the lease was lost before ctx was
// done.
// The lease is given up only after work has returned, so that two leaders never
// overlap on an orderly stop.
func lead(ctx context.Context, client kubernetes.Interface, options *Options, watchdog *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	config := options.LeaderElection
	hostname, err := os.Hostname()
	if err := errors.Join(err, preflight.CheckLeaseNamespace(ctx, client, config)); err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: config.ResourceNamespace, Name: config.ResourceName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
	}
	// The election must outlive ctx until work has ended.
	election, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var working sync.Mutex
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lease.New(lock, []string{options.SchedulerName}, false),
		Name:            config.ResourceName,
		LeaseDuration:   config.LeaseDuration.Duration,
		RenewDeadline:   config.RenewDeadline.Duration,
		RetryPeriod:     config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		WatchDog:        watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer release()
				working.Lock()
				defer working.Unlock()
				ctx, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(leading, stop)()
				work(ctx)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	watchdog.SetLeaderElection(elector)
	defer context.AfterFunc(ctx, func() {
		working.Lock()
		defer working.Unlock()
		release()
	})()
	elector.Run(election)

	working.Lock()
	defer working.Unlock()
	if ctx.Err() == nil {
		return fmt.Errorf("lost the lease %s: another replica may bind from now on", lock.Describe())
	}
	return nil
}

// rights returns what the API server must let the binder do.
func (o *Options) rights() []preflight.Right {
	all, own := []string{metav1.NamespaceAll}, o.Namespaces
	if len(own) == 0 {
		own = all
	}
	var rights []preflight.Right
	need := func(right preflight.Right, namespaces []string, verbs ...string) {
		for _, right.Namespace = range namespaces {
			rights = append(rights, preflight.Expand(right, verbs...)...)
		}
	}
	need(preflight.Right{Resource: "nodes", Why: "without it no node is ever feasible"}, all, "list", "watch")
	need(preflight.Right{Resource: "pods", Why: "without it no pod is seen"}, o.watchedNamespaces(), "list", "watch")
	need(preflight.Right{Resource: "pods", Subresource: "binding", Why: "without it no pod is bound"}, own, "create")
	need(preflight.Right{Resource: "pods", Subresource: "status", Why: "without it a pod does not say why it is pending"}, own, "patch")
	need(preflight.Right{Group: "events.k8s.io", Resource: "events", Why: "without it a pod's events are missing"}, own, "create", "patch")
	rights = append(rights, preflight.LeaseRights(o.LeaderElection, "without it this process never leads (or run one replica with --leader-elect=false)")...)
	if o.SecureServing.BindPort != 0 {
		rights = append(rights, preflight.ServingRights(true)...)
	}
	return rights
}

// serve answers /metrics, /healthz and /readyz over HTTPS until ctx is done. Who
// asks for /metrics must be known to the API server, and allowed to; the other two
// answer anybody. It returns once the address is taken, so that an address in use
// is an error at start.
func serve(ctx context.Context, options *Options, b *binder, watchdog healthz.HealthChecker) error {
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
	var authenticationInfo apiserver.AuthenticationInfo
	authorization := apiserveroptions.NewDelegatingAuthorizationOptions().WithAlwaysAllowPaths("/healthz", "/readyz")
	authorization.RemoteKubeConfigFile, authorization.RemoteKubeConfigFileOptional = options.Kubeconfig, true
	var authorizationInfo apiserver.AuthorizationInfo
	if err := errors.Join(authentication.ApplyTo(&authenticationInfo, info, nil), authorization.ApplyTo(&authorizationInfo)); err != nil {
		return fmt.Errorf("preparing to ask the API server who may read /metrics: %w", err)
	}

	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, b.registry},
		metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError}))
	healthz.InstallPathHandler(mux, "/healthz", watchdog)
	healthz.InstallPathHandler(mux, "/readyz", healthz.NamedCheck("binder", func(*http.Request) error {
		if b.syncing.Load() {
			return errors.New("still reading the first list of nodes and pods")
		}
		return nil
	}))
	if _, _, err := info.Serve(app.BuildHandlerChain(mux, &authorizationInfo, &authenticationInfo), 0, ctx.Done()); err != nil {
		return fmt.Errorf("serving metrics and health: %w", err)
	}
	klog.FromContext(ctx).Info("Serving metrics and health", "address", info.Listener.Addr().String())
	return nil
}
