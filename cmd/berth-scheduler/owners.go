// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
)

// takenWithin is how long a pod whose schedulerName is like one of ours may wait
// for another scheduler before it is told of the likely typo.
const takenWithin = 10 * time.Second

// tellOwners has the scheduler tell the owners of pods what they can act on: why a
// pod waits, which of its keys have no effect, and that its schedulerName may be a
// typo. Call it before the informers are started.
func tellOwners(ctx context.Context, built *scheduler) error {
	config, sched, effective := built.config, built.sched, built.effective
	options := pending.Options{
		Profiles:       effective,
		DeviceProfiles: registry.ProfilesRunning(effective, gpudevice.Name),
		Measuring:      built.measuring,
	}
	if gangs := registry.Gangs(effective); gangs != nil && config.DynInformerFactory != nil {
		options.Gangs = &pending.Gangs{
			Plugin:    gangs.Plugin,
			GaveUp:    built.gaveUp,
			PodGroups: config.DynInformerFactory.ForResource(gangs.GroupVersionResource).Lister(),
		}
	}
	sched.FailureHandler = pending.New(config.InformerFactory, options).Wrap(sched.FailureHandler)

	recorders := map[string]events.EventRecorder{}
	profiles := map[string]*unknownkeys.Profile{}
	for name, fw := range sched.Profiles {
		recorders[name] = fw.EventRecorder()
		profiles[name] = &unknownkeys.Profile{
			Name:     name,
			Recorder: fw.EventRecorder(),
			Runs:     func(plugin string) bool { return registry.RunsIn(effective[name], plugin) },
		}
	}
	if err := pending.WatchSchedulerNames(ctx, config.InformerFactory, recorders, clock.RealClock{}, takenWithin); err != nil {
		return err
	}
	return unknownkeys.Watch(config.InformerFactory, registry.PodKeys(), profiles)
}
