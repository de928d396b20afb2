// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "LabelPresence"

// LabelPresence is the plugin. See the package comment.
type LabelPresence struct {
	handle      fwk.Handle
	policy      *policy
	preferences preferences
	// namespaces is nil if no verdict depends on a namespace's labels.
	namespaces *namespaceWatch
}

var (
	_ fwk.PreFilterPlugin   = &LabelPresence{}
	_ fwk.FilterPlugin      = &LabelPresence{}
	_ fwk.PreScorePlugin    = &LabelPresence{}
	_ fwk.ScorePlugin       = &LabelPresence{}
	_ fwk.EnqueueExtensions = &LabelPresence{}
	_ fwk.SignPlugin        = &LabelPresence{}
)

// Name returns the name of the plugin.
func (pl *LabelPresence) Name() string { return Name }

// New builds the plugin from args, which must be *config.LabelPresenceArgs and
// valid; the error names every field that is not. It adds event handlers to the
// handle's informers: for namespaces where a namespaceSelector or tenancy needs
// them, and for pods and nodes where tenancy does.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	lpArgs, ok := args.(*config.LabelPresenceArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.LabelPresenceArgs, got %T", args)
	}
	// The root of the paths is the kind: which profile the args belong to is not
	// known here.
	if err := validation.ValidateLabelPresenceArgs(field.NewPath(Name+"Args"), lpArgs); err != nil {
		return nil, err
	}

	registerMetrics()
	profile := handle.ProfileName()
	rules, err := newRules(lpArgs.Rules, profile, func(index int) metrics.CounterMetric {
		return nodeRejections.WithLabelValues(profile, "rules["+strconv.Itoa(index)+"]")
	})
	if err != nil {
		return nil, err
	}
	pl := &LabelPresence{
		handle: handle,
		policy: &policy{
			rules:            rules,
			exemptDaemonPods: lpArgs.DaemonSets == config.DaemonSetsExempt,
		},
		preferences: newPreferences(lpArgs.Preferences),
	}
	if lpArgs.Tenancy != nil {
		pl.policy.tenancy = newTenancy(lpArgs.Tenancy, profile, nodeRejections.WithLabelValues(profile, ruleTenancy))
	}
	if !pl.policy.usesNamespaces() {
		return pl, nil
	}
	if handle.SharedInformerFactory() == nil {
		return nil, fmt.Errorf("%s with a namespaceSelector or tenancy needs a framework with an informer factory", Name)
	}
	if err := pl.watchNamespaces(ctx); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return pl, nil
}
