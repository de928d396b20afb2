// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// placeGangs has the profiles that are read from now on place PodGroups, as the schedulers
// of clusters that have PodGroups do: without the feature gates no API server keeps them.
func placeGangs() error { return utilfeature.DefaultMutableFeatureGate.SetFromMap(engine.GangGates()) }
