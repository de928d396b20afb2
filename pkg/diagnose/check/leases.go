// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// listLeases returns all leases but those of nodes. It is not ok where they cannot be seen.
func (c *checker) listLeases() (list []coordinationv1.Lease, ok bool) {
	if c.leases == nil {
		c.leases = &coordinationv1.LeaseList{}
		leases, err := c.client.CoordinationV1().Leases(metav1.NamespaceAll).List(c.ctx, metav1.ListOptions{FieldSelector: "metadata.namespace!=" + corev1.NamespaceNodeLease})
		if c.leasesSeen = c.seen("leases, so other schedulers of these schedulerNames are unknown", err); c.leasesSeen {
			c.leases = leases
		}
	}
	return c.leases.Items, c.leasesSeen
}

// now is the time, unless the API servers' own leases show that the clock here is another
// than theirs.
func (c *checker) now() time.Time {
	var newest time.Time
	leases, _ := c.listLeases()
	for i := range leases {
		if renewed, _ := lease.Term(&leases[i]); leases[i].Labels["apiserver.kubernetes.io/identity"] != "" && renewed.After(newest) {
			newest = renewed
		}
	}
	if skew := c.options.Now.Sub(newest).Abs(); newest.IsZero() || skew < time.Minute || skew > 24*time.Hour {
		return c.options.Now
	}
	return newest
}

// isLive reports whether a lease is held and renewed.
func (c *checker) isLive(l *coordinationv1.Lease) bool {
	renewed, counts := lease.Term(l)
	return ptr.Deref(l.Spec.HolderIdentity, "") != "" && !lease.Expired(renewed, counts, c.now())
}

// checkLeases finds leases that keep a scheduler from scheduling, or do not keep two from
// placing the same pods.
func (c *checker) checkLeases() {
	for i, s := range c.schedulers {
		election := s.profile.Config.LeaderElection
		if !election.LeaderElect && s.replicas > 1 {
			c.found(Finding{
				Error, s.profile.Source, "leaderElection.leaderElect", fmt.Sprintf("is false, and %s has %d replicas: each of them places the same pods", s.object, s.replicas),
				"elect a leader, or run one replica",
			})
		}
		for _, other := range c.schedulers[:i] {
			c.checkTwo(s, other)
		}
		c.checkOtherHolders(s)
		if !election.LeaderElect {
			continue
		}
		name := leaseOf(s)
		c.checkLease(s, name)
		if slices.Contains(s.profile.Names(), corev1.DefaultSchedulerName) {
			c.checkStock(s, name)
		}
	}
}

// leaseOf names the lease of a scheduler; it is empty without leader election.
func leaseOf(s *runningScheduler) string {
	if election := s.profile.Config.LeaderElection; election.LeaderElect {
		return election.ResourceNamespace + "/" + election.ResourceName
	}
	return ""
}

// checkTwo finds two schedulers that keep each other from scheduling, or that place the same
// pods.
func (c *checker) checkTwo(s, other *runningScheduler) {
	name := leaseOf(s)
	if name != "" && name == leaseOf(other) {
		c.checkShared(s, other, name)
		return
	}
	for _, served := range s.profile.Names() {
		if slices.Contains(other.profile.Names(), served) && s.replicas > 0 && other.replicas > 0 {
			c.found(placedTwice(s, served, other.object))
		}
	}
}

// checkOtherHolders finds processes that hold other leases than a scheduler, and serve a name
// of it.
func (c *checker) checkOtherHolders(s *runningScheduler) {
	leases, _ := c.listLeases()
	for i := range leases {
		l := &leases[i]
		name, holder := l.Namespace+"/"+l.Name, ptr.Deref(l.Spec.HolderIdentity, "")
		known := slices.ContainsFunc(c.schedulers, func(other *runningScheduler) bool { return leaseOf(other) == name })
		if known || s.replicas == 0 || !c.isLive(l) {
			continue
		}
		for _, served := range lease.Serves(holder) {
			if slices.Contains(s.profile.Names(), served) {
				c.found(placedTwice(s, served, fmt.Sprintf("%s, which holds the lease %s", holder, name)))
			}
		}
	}
}

// placedTwice is that two schedulers without one lease serve one name.
func placedTwice(s *runningScheduler, served, other string) Finding {
	with := "without leader election"
	if name := leaseOf(s); name != "" {
		with = "with the lease " + name
	}
	return Finding{
		Error, s.profile.Source, "leaderElection.resourceName", fmt.Sprintf("%s serves %q %s, and so does %s: both place the same pods", s.object, served, with, other),
		"give both one lease, or each profile a name of its own",
	}
}

// checkShared finds two schedulers of one lease that do not serve the same names.
func (c *checker) checkShared(s, other *runningScheduler, name string) {
	if slices.ContainsFunc(s.profile.Names(), func(n string) bool { return slices.Contains(other.profile.Names(), n) }) {
		return
	}
	c.found(Finding{
		Error, s.profile.Source, "leaderElection.resourceName",
		fmt.Sprintf("the lease %s is also used by %s, which serves %s: only one of the two can schedule", name, other.object, strings.Join(other.profile.Names(), ", ")),
		"give each scheduler a lease of its own",
	})
}

// checkLease looks at who holds the lease.
func (c *checker) checkLease(s *runningScheduler, name string) {
	election := s.profile.Config.LeaderElection
	object := "Lease " + name
	if c.objects.Has("namespaces") && c.namespaces()[election.ResourceNamespace] == nil {
		c.found(Finding{
			Error, s.profile.Source, "leaderElection.resourceNamespace", fmt.Sprintf("namespace %q does not exist, and the lease must be in one", election.ResourceNamespace),
			fmt.Sprintf("create it (kubectl create namespace %s), or name another", election.ResourceNamespace),
		})
		return
	}
	held, err := c.client.CoordinationV1().Leases(election.ResourceNamespace).Get(c.ctx, election.ResourceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
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
		f.Message, f.WayOut = splitWayOut(strings.TrimPrefix(settings.NeverHeld(neverHeld).Error(), f.Field+": "), "")
		c.found(f)
	case !s.available:
	case holder == "":
		c.found(Finding{Error, object, "spec.holderIdentity", fmt.Sprintf("no scheduler holds it, and %s has a replica: no pod of it is scheduled", s.object), "see the log of its pods"})
	case lease.Expired(renewed, counts, c.now()):
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
			if len(arguments) == 0 || !strings.HasSuffix(arguments[0], "kube-scheduler") || elects(&pod.Spec, container) {
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

// elects reports whether a kube-scheduler elects a leader. The flags of one of another
// release may not be known here: then only this one is read.
func elects(pod *corev1.PodSpec, container *corev1.Container) bool {
	if started := schedulers.ReadContainer(pod, container); started.Flags != nil {
		return started.Flags.Options.LeaderElection.LeaderElect
	}
	elects, err := strconv.ParseBool(schedulers.Flag(container, "leader-elect"))
	return err != nil || elects
}
