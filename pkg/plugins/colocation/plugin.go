// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "Colocation"

// Colocation is the plugin. See the package comment.
type Colocation struct {
	handle fwk.Handle
	policy *policy
	// instance is shared with every profile of this scheduler instance.
	instance *instanceState
	counters counters
	// offset is where the search among equally near nodes begins. Only the
	// scheduling goroutine touches it.
	offset int
}

var (
	_ fwk.PreFilterPlugin     = &Colocation{}
	_ fwk.PreFilterExtensions = &Colocation{}
	_ fwk.FilterPlugin        = &Colocation{}
	_ fwk.PostFilterPlugin    = &Colocation{}
	_ fwk.PreScorePlugin      = &Colocation{}
	_ fwk.ScorePlugin         = &Colocation{}
	_ fwk.ReservePlugin       = &Colocation{}
	_ fwk.EnqueueExtensions   = &Colocation{}
	_ fwk.SignPlugin          = &Colocation{}
)

// Name returns the name of the plugin.
func (pl *Colocation) Name() string { return Name }

// New builds the plugin from args, which must be *config.ColocationArgs and valid;
// the error names every field that is not. It adds event handlers to the handle's
// informers of pods, nodes, Services, EndpointSlices and namespaces, once for all
// profiles of one informer factory.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	colocationArgs, ok := args.(*config.ColocationArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.ColocationArgs, got %T", args)
	}
	// The root of the paths is the kind: which profile the args belong to is not
	// known here.
	if err := validation.ValidateColocationArgs(field.NewPath(Name+"Args"), colocationArgs); err != nil {
		return nil, err
	}
	if handle.SharedInformerFactory() == nil {
		return nil, fmt.Errorf("%s needs a framework with an informer factory", Name)
	}
	policy, err := newPolicy(colocationArgs)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	instance, err := instanceOf(ctx, handle)
	if err != nil {
		return nil, fmt.Errorf("watching what is behind Services: %w", err)
	}
	return &Colocation{
		handle:   handle,
		policy:   policy,
		instance: instance,
		counters: newCounters(handle.ProfileName()),
	}, nil
}
