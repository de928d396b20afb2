// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"context"
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

// ExpectsWorkload reports whether the strategy, a baseline or not, reads an expected
// workload.
func ExpectsWorkload(strategy config.GPUDeviceStrategy) bool {
	return strategy.ExpectsWorkload() || string(strategy) == Published{}.String()
}

// StandIn returns arguments that GPUDevice takes in place of these: the same, with a
// strategy that reads as much of them where they name a baseline, and the baseline,
// or nil. What it draws, it draws in a sequence that is always the same.
func StandIn(args *config.GPUDeviceArgs) (*config.GPUDeviceArgs, device.Strategy) {
	name := string(args.ScoringStrategy.Type)
	for _, baseline := range []device.Strategy{Published{}, DotProduct{}, Random{rand.New(rand.NewPCG(0, 0))}} { //nolint:gosec // reproducible on purpose
		if baseline.String() != name {
			continue
		}
		args = args.DeepCopy()
		args.ScoringStrategy.Type = config.GPUDeviceBestFit
		if ExpectsWorkload(config.GPUDeviceStrategy(name)) {
			args.ScoringStrategy.Type = config.GPUDeviceFragmentationGradient
		}
		return args, baseline
	}
	return args, nil
}

// New is gpudevice.New, and takes a baseline for a strategy too.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, ok := obj.(*config.GPUDeviceArgs)
	if !ok {
		return gpudevice.New(ctx, obj, handle)
	}
	args, baseline := StandIn(args)
	if baseline == nil {
		return gpudevice.New(ctx, args, handle)
	}
	plugin, err := gpudevice.NewWithStrategy(ctx, args, handle, baseline)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", baseline, err)
	}
	if random, ok := baseline.(Random); ok {
		return &randomPlugin{GPUDevice: plugin, random: random}, nil
	}
	return plugin, nil
}
