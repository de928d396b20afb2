// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedprofile "k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// nowhere is the address of an API server that is never asked.
const nowhere = "https://check.invalid"

// Profile is a KubeSchedulerConfiguration that a scheduler would start with.
type Profile struct {
	// Source says where it was read.
	Source string
	// Config is what it says, with defaults.
	Config *schedconfig.KubeSchedulerConfiguration
	// Effective is what each profile runs in the end, by schedulerName.
	Effective map[string]*schedconfig.Plugins
	// Flags are those that the scheduler is started with; nil if they are not known.
	Flags *Flags
}

// Names returns the schedulerNames that it serves, sorted.
func (p *Profile) Names() []string { return slices.Sorted(maps.Keys(p.Effective)) }

// ErrNoConfig is why a scheduler without --config does not start.
var ErrNoConfig = errors.New("--config: required: the path of a KubeSchedulerConfiguration; without one this process would serve default-scheduler, the cluster's own scheduler")

// Load does with the content of a KubeSchedulerConfiguration what berth-scheduler does at
// start as far as that needs no cluster: it decodes it strictly, lets the flags override it,
// validates it, builds the plugins, and checks what runs in the end. source is where it was
// read; the error begins with it and with the flags that override it, and aggregates all
// problems of the first stage that fails. flags may be nil.
func Load(ctx context.Context, source string, content []byte, flags *Flags) (*Profile, error) {
	config, err := flags.Load(source, content)
	if err != nil {
		return nil, err
	}
	p := &Profile{Source: flags.Source(source), Config: config, Flags: flags}
	err = flags.Do(func() error {
		p.Effective, err = build(ctx, config)
		return err
	})
	if err == nil {
		err = registry.CheckConfiguration(config, p.Effective)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Source, err)
	}
	return p, nil
}

// build makes the scheduler, returns what its profiles run, and drops it. It asks no API
// server.
func build(ctx context.Context, config *schedconfig.KubeSchedulerConfiguration) (map[string]*schedconfig.Plugins, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connection := &rest.Config{Host: nowhere}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	custom, err := dynamic.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	sched, err := scheduler.New(ctx, client,
		informers.NewSharedInformerFactory(client, 0), dynamicinformer.NewDynamicSharedInformerFactory(custom, 0),
		schedprofile.NewRecorderFactory(broadcaster),
		scheduler.WithComponentConfigVersion(config.APIVersion),
		scheduler.WithKubeConfig(connection),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(registry.New()),
		scheduler.WithPodMaxBackoffSeconds(config.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(config.PodInitialBackoffSeconds),
		scheduler.WithExtenders(config.Extenders...),
		scheduler.WithParallelism(config.Parallelism),
	)
	if err != nil {
		return nil, err
	}
	effective := make(map[string]*schedconfig.Plugins, len(sched.Profiles))
	for name, framework := range sched.Profiles {
		effective[name] = framework.ListPlugins()
	}
	return effective, nil
}

// NeverHeld is why a scheduler does not serve default-scheduler while no scheduler has ever
// held the lease of the cluster's own: the shared lease is what keeps the two from placing
// the same pods, and a scheduler that runs with --leader-elect=false never takes it. err is
// lease.ErrNeverHeld, and names the lease.
func NeverHeld(err error) error {
	return fmt.Errorf("leaderElection.resourceName: %w, and a scheduler that serves %s with --leader-elect=false would go on placing the same pods: let the cluster's own scheduler run with leader election first, or, if there is none or the lease was deleted, say so with --%s",
		err, corev1.DefaultSchedulerName, SoleFlag)
}
