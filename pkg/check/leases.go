// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/lease"
	"github.com/berth-scheduler/berth/pkg/startedwith"
)

// checkLeases finds leases that keep a scheduler from scheduling, or do not keep two from
// placing the same pods.
func (c *checker) checkLeases() {
	for i, s := range c.schedulers {
		election := s.profile.Config.LeaderElection
		if !election.LeaderElect {
			continue
		}
		name := election.ResourceNamespace + "/" + election.ResourceName
		for _, other := range c.schedulers[:i] {
			theirs := other.profile.Config.LeaderElection
			if theirs.LeaderElect && theirs.ResourceNamespace == election.ResourceNamespace && theirs.ResourceName == election.ResourceName {
				c.checkShared(s, other, name)
			}
		}
		c.checkLease(s, name)
		if slices.Contains(s.profile.Names(), corev1.DefaultSchedulerName) {
			c.checkStock(s, name)
		}
	}
}

// checkShared finds two schedulers of one lease that do not serve the same names.
func (c *checker) checkShared(s, other *runningScheduler, name string) {
	if slices.ContainsFunc(s.profile.Names(), func(n string) bool { return slices.Contains(other.profile.Names(), n) }) {
		return
	}
	c.found(Finding{
		Error, s.profile.Source, "leaderElection.resourceName",
		fmt.Sprintf("the lease %s is also that of %s, which serves %s: one of the two waits for ever", name, other.object, strings.Join(other.profile.Names(), ", ")),
		"give each scheduler a lease of its own",
	})
}

// checkLease looks at who holds the lease.
func (c *checker) checkLease(s *runningScheduler, name string) {
	election := s.profile.Config.LeaderElection
	object := "Lease " + name
	if c.objects.Has("namespaces") && !c.hasNamespace(election.ResourceNamespace) {
		c.found(Finding{
			Error, s.profile.Source, "leaderElection.resourceNamespace", fmt.Sprintf("namespace %q does not exist, and the lease must be in one", election.ResourceNamespace),
			fmt.Sprintf("create it (kubectl create namespace %s), or name another", election.ResourceNamespace),
		})
		return
	}
	held, err := c.client.CoordinationV1().Leases(election.ResourceNamespace).Get(c.ctx, election.ResourceName, metav1.GetOptions{})
	if c.notFound(err) {
		held, err = &coordinationv1.Lease{}, nil
	}
	if !c.seen(object, err) {
		return
	}
	neverHeld := lease.CheckHeld(c.ctx, c.client, election)
	renewed, counts := lease.Term(held)
	holder := ptr.Deref(held.Spec.HolderIdentity, "")
	switch {
	case errors.Is(neverHeld, lease.ErrNeverHeld) && !s.sole() && slices.Contains(s.profile.Names(), corev1.DefaultSchedulerName):
		f := Finding{Severity: Error, Object: s.profile.Source, Field: "leaderElection.resourceName"}
		f.Message, f.WayOut = splitWayOut(strings.TrimPrefix(NeverHeld(neverHeld).Error(), f.Field+": "), "")
		c.found(f)
	case !s.available:
	case holder == "":
		c.found(Finding{Error, object, "spec.holderIdentity", fmt.Sprintf("nobody holds it, and %s has a replica: no pod of it is scheduled", s.object), "see the log of its pods"})
	case lease.Expired(renewed, counts, c.options.Now):
		c.found(Finding{Error, object, "spec.renewTime", fmt.Sprintf("%s holds it and has not renewed it since %s: no pod of %s is scheduled", holder, renewed.Format(time.RFC3339), s.object), "see the log of its pods"})
	default:
		if err := lease.NotReplica(name, holder, s.profile.Names(), s.deployment); err != nil {
			f := Finding{Severity: Error, Object: s.profile.Source, Field: "leaderElection.resourceName"}
			f.Message, f.WayOut = splitWayOut(err.Error(), "")
			c.found(f)
		}
	}
}

// checkStock finds a scheduler of the cluster's own that goes on beside one that serves
// default-scheduler, because it never looks at the lease.
func (c *checker) checkStock(s *runningScheduler, name string) {
	for _, pod := range c.objects.Pods() {
		for i := range pod.Spec.Containers {
			container := &pod.Spec.Containers[i]
			arguments := slices.Concat(container.Command, container.Args)
			if len(arguments) == 0 || !strings.HasSuffix(arguments[0], "kube-scheduler") || startedwith.Flag(container, "leader-elect") != "false" {
				continue
			}
			c.found(Finding{
				Error, fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name), fmt.Sprintf("spec.containers[%d].command", i),
				fmt.Sprintf("--leader-elect=false lets it place the pods of %s beside %s, which holds the lease %s", corev1.DefaultSchedulerName, s.object, name),
				"remove the flag, so that one of the two schedules, or stop this scheduler",
			})
		}
	}
}
