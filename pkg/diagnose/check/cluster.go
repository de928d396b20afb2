// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// Options say what is checked.
type Options struct {
	// Client reads the cluster. Files are read in its place, if they are not nil.
	Client kubernetes.Interface
	Files  *Files
	// Profile is that of the scheduler that is checked, whose credential Client has. Nil:
	// those of the Deployments of berth-scheduler.
	Profile *settings.Profile
	// Now is the time.
	Now time.Time
}

// Cluster checks a cluster, or files of its objects. The error is that it could not be read.
func Cluster(ctx context.Context, o Options) (*Report, error) {
	c := &checker{
		ctx: ctx, client: o.Client, options: o,
		report: &Report{FormatVersion: FormatVersion, Schedulers: []string{}, Findings: []Finding{}},
	}
	if err := c.readObjects(); err != nil {
		return nil, err
	}
	for _, step := range []func(){
		c.findSchedulers, c.checkServed, c.checkRights, c.checkLeases, c.checkPools, c.checkPolicies, c.checkTenancy, c.checkDevices, c.checkPods, c.checkEvents,
	} {
		if step(); c.err != nil {
			return nil, c.err
		}
	}
	c.report.sort()
	return c.report, nil
}

// readObjects reads the objects that plugins read.
func (c *checker) readObjects() error {
	if c.options.Files != nil {
		return c.options.Files.into(c)
	}
	listing := cluster.Listing{Resources: append([]string{"namespaces"}, deviceusage.Resources()...)}
	objects, notes, err := listing.List(c.ctx, c.client)
	for _, note := range notes {
		c.report.NotSeen = append(c.report.NotSeen, note.String())
	}
	c.objects = objects
	return err
}

// checker is a check under way.
type checker struct {
	// ctx is that of the one call of Cluster that it lives for.
	ctx     context.Context
	client  kubernetes.Interface
	options Options
	objects *cluster.Cluster
	report  *Report
	// schedulers are those whose profile could be loaded; schedulersSeen is that there are
	// no others.
	schedulers     []*runningScheduler
	schedulersSeen bool
	// leases are those that listLeases has seen, nil before.
	leases     *coordinationv1.LeaseList
	leasesSeen bool
	// err is the first that kept something from being read that may be read.
	err error
}

func (c *checker) found(f Finding) { c.report.Findings = append(c.report.Findings, f) }

// seen reports whether err is nil. What may not be read becomes a note; any other error ends
// the check.
func (c *checker) seen(what string, err error) bool {
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		c.report.NotSeen = append(c.report.NotSeen, fmt.Sprintf("%s: %v", what, err))
	case c.err == nil:
		c.err = fmt.Errorf("%s: %w", what, err)
	}
	return false
}

// that returns the schedulers that satisfy the condition.
func (c *checker) that(is func(*runningScheduler) bool) []*runningScheduler {
	return slices.DeleteFunc(slices.Clone(c.schedulers), func(s *runningScheduler) bool { return !is(s) })
}
