// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// nowhere is an address that nobody asks.
const nowhere = "https://check.invalid"

// Profile is a KubeSchedulerConfiguration that a scheduler would start with.
type Profile struct {
	// Source says where it was read.
	Source string
	// Config is what it says, with defaults.
	Config *schedconfig.KubeSchedulerConfiguration
	// Effective is what each profile runs in the end, by schedulerName.
	Effective map[string]*schedconfig.Plugins
	// Flags are those that the scheduler is started with; nil if that is not known.
	Flags *settings.Flags
}

// Names returns the schedulerNames that it serves, sorted.
func (p *Profile) Names() []string { return slices.Sorted(maps.Keys(p.Effective)) }

// ErrNoConfig is why a scheduler without --config does not start.
var ErrNoConfig = errors.New("--config: required: the path of a KubeSchedulerConfiguration; without one this process would serve default-scheduler, the cluster's own scheduler")

// Load does with the content of a KubeSchedulerConfiguration what berth-scheduler does at
// start as far as that needs no cluster: it decodes it strictly, lets the flags override it,
// validates it, builds the plugins, and checks what runs in the end. source is where it was
// read; with it, and the flags that override it, the error begins. The error aggregates all
// that is wrong at the first stage that fails. flags may be nil.
func Load(ctx context.Context, source string, content []byte, flags *settings.Flags) (*Profile, error) {
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

// build makes the scheduler, asks it what its profiles run, and gives it up. Nothing is
// asked of any API server.
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
