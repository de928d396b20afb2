// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/preflight"
)

// leaseGrace is how long past its expiry a held lease may stay unrenewed before
// /healthz fails.
const leaseGrace = 20 * time.Second

// leaderElection is what the lease's client calls itself.
const leaderElection = "leader-election"

// Run is the whole random-scheduler process: it validates the options, checks
// that the credential has the rights that it needs, serves health and metrics,
// waits to lead and binds pods until ctx is done. It returns nil then, and
// otherwise an error that says what to change.
func Run(ctx context.Context, config *rest.Config, options *Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	// Three clients, because each has a rate limit of its own: neither events
	// nor a queue of Bindings may keep the lease from being renewed.
	var clients [3]kubernetes.Interface
	for i, name := range []string{"bind", "events", leaderElection} {
		config := rest.AddUserAgent(rest.CopyConfig(config), name)
		limit(config)
		if name == leaderElection {
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

	seed := options.Seed
	if seed == 0 {
		seed = drawSeed()
	}
	logger.Info("Choosing nodes at random", "seed", seed)

	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: eventsClient.EventsV1()})
	defer broadcaster.Shutdown()
	binder := New(bindClient, broadcaster.NewRecorder(scheme.Scheme, options.SchedulerName), options, NewRand(seed))

	watchdog := leaderelection.NewLeaderHealthzAdaptor(leaseGrace)
	if options.SecureServing.BindPort != 0 {
		if err := serve(ctx, options, binder.metrics.gatherer(), watchdog.Check, binder.ready); err != nil {
			return err
		}
	}
	if err := preflight.Check(ctx, bindClient, options.rights()); err != nil {
		return err
	}
	binder.checked.Store(true)

	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	if !options.LeaderElection.LeaderElect {
		return binder.Run(ctx)
	}
	return lead(ctx, leaseClient, options.LeaderElection, watchdog, binder.Run)
}

// NewRand returns the source of the binder's choices: the same seed gives the
// same sequence on every platform.
func NewRand(seed uint64) *rand.Rand {
	// PCG takes two words; the second is only there to be the same every time.
	return rand.New(rand.NewPCG(seed, 0))
}

// drawSeed returns a seed that nobody can guess, and never 0, which stands for
// drawing one.
func drawSeed() uint64 {
	var bytes [8]byte
	// crypto/rand never fails: it ends the process if the system has no entropy.
	_, _ = cryptorand.Read(bytes[:])
	return max(1, binary.LittleEndian.Uint64(bytes[:]))
}
