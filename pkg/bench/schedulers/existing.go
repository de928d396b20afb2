// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"

	"k8s.io/client-go/rest"
)

// Existing is the schedulers of an existing cluster, which somebody else runs: nothing
// of them can be seen, the renewals of their leases included.
type Existing struct {
	config *rest.Config
	limit  Limit
}

// NewExisting returns the schedulers of a cluster. The limit is BareBinder's, the only
// one that is started here.
func NewExisting(config *rest.Config, limit Limit) *Existing {
	return &Existing{config: config, limit: limit}
}

// Start returns what stands for a scheduler that runs already, or starts BareBinder.
func (e *Existing) Start(ctx context.Context, spec *Spec, place Place) (Running, error) {
	if spec.Bare() {
		return startBareBinder(ctx, e.config, e.limit, place)
	}
	return unobserved{}, nil
}

// Lease returns nothing.
func (*Existing) Lease(*Spec) (namespace, name string, elected bool) { return "", "", false }

// unobserved stands for a scheduler that somebody else runs.
type unobserved struct{}

func (unobserved) Sample(context.Context) (*Sample, error) { return nil, nil } //nolint:nilnil // that is what the interface asks for
func (unobserved) Failed() <-chan error                    { return nil }
func (unobserved) Stop() ([]string, error)                 { return nil, nil }
