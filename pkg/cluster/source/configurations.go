// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// Configurations are those of the schedulers of a cluster: of those that hold leases, and
// of those that Berth's manifests have installed. The zero value has none.
type Configurations struct{ found found }

// Keep takes Leases and ConfigMaps of files; it is for Keep of a cluster.Reader.
func (c *Configurations) Keep(kind schema.GroupVersionKind, object []byte) (taken bool, err error) {
	switch kind.GroupKind() {
	case schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}, schema.GroupKind{Kind: "ConfigMap"}:
		return c.found.keep(kind, object)
	}
	return false, nil
}

// Read reads those of a cluster, by get and list requests alone. That something may not be
// read is no error: [Configurations.For] tells it.
func (c *Configurations) Read(ctx context.Context, client kubernetes.Interface) error {
	if err := c.found.readLeases(ctx, client); err != nil {
		return err
	}
	return c.found.readConfigMaps(ctx, client)
}

// For returns the configuration of the scheduler that serves a schedulerName, and where it
// stands; of the cluster's own, if it was not seen, what kube-scheduler runs without a
// file. The error is that nobody is known who serves the name.
func (c *Configurations) For(schedulerName string) (source string, content []byte, err error) {
	var broken error
	for _, known := range c.found.configs {
		config, err := known.flags.Load(known.source, known.content)
		switch {
		case err != nil:
			broken = cmp.Or(broken, fmt.Errorf("the running scheduler's profile: %w", err))
		case serves(config, schedulerName):
			return known.source, known.content, nil
		}
	}
	switch {
	case schedulerName == corev1.DefaultSchedulerName:
		return stockProfile, []byte(stockDefaults), nil
	case broken != nil:
		return "", nil, broken
	}
	for _, what := range c.found.in.NotSeen {
		return "", nil, fmt.Errorf("no scheduler was seen that serves %q (not seen: %s)", schedulerName, what)
	}
	return "", nil, fmt.Errorf("no scheduler was seen that serves %q", schedulerName)
}
