// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"

	"k8s.io/client-go/rest"
)

// Present is the schedulers of a cluster that somebody else runs.
type Present struct {
	config *rest.Config
	limit  Limit
}

// NewPresent returns the schedulers of a cluster. The limit is BareBinder's, the only
// one that is started here.
func NewPresent(config *rest.Config, limit Limit) *Present {
	return &Present{config: config, limit: limit}
}

// Start returns what stands for a scheduler that runs already, or starts BareBinder.
func (p *Present) Start(ctx context.Context, spec *Spec, place Place) (Running, error) {
	if spec.Bare() {
		return startBareBinder(ctx, p.config, p.limit, place)
	}
	return Given{}, nil
}

// Lease returns nothing: what the schedulers write cannot be seen, the renewals of
// their leases included.
func (p *Present) Lease(*Spec) (namespace, name string, elected bool) { return "", "", false }
