// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
)

// servedBy finds out who handles the pod's schedulerName.
func servedBy(in *Input, pod *corev1.Pod) Scheduler {
	s := Scheduler{Name: pod.Spec.SchedulerName, Profile: in.Profile}
	if s.Name == "" {
		s.Name = corev1.DefaultSchedulerName
	}
	known := map[string]bool{}
	hasProfile := false
	if in.Config != nil {
		for i := range in.Config.Profiles {
			known[in.Config.Profiles[i].SchedulerName] = true
			hasProfile = hasProfile || in.Config.Profiles[i].SchedulerName == s.Name
		}
	}
	for i := range in.Servers {
		for _, name := range in.Servers[i].Names {
			known[name] = true
			if name == s.Name && !s.Alive { // of several leases, one that is renewed counts
				s.heldBy(&in.Servers[i], in.Now)
			}
		}
	}
	switch {
	case s.Lease != "":
	case wasTaken(in, pod):
		s.Known = true
		s.Text = fmt.Sprintf("a scheduler has handled pods with schedulerName %q; which one is unknown", s.Name)
	case hasProfile && !in.ServersSeen:
		s.Known = true
		s.Text = fmt.Sprintf("%q is a profile of %s; whether a scheduler runs with it is unknown", s.Name, in.Profile)
	case hasProfile:
		s.Known, s.notRunning = true, true
		s.Text = fmt.Sprintf("%q is a profile of %s, and no scheduler holds a lease for it: none seems to run", s.Name, in.Profile)
	default:
		s.unknown(slices.Sorted(maps.Keys(known)), in.ServersSeen)
	}
	return s
}

// heldBy tells of a lease.
func (s *Scheduler) heldBy(server *schedulers.Server, now time.Time) {
	renewed := server.Renewed
	s.Known, s.Lease, s.Holder, s.Renewed = true, server.Lease, server.Holder, &renewed
	s.Alive = server.Holder != "" && !lease.Expired(renewed, server.Duration, now)
	told := fmt.Sprintf("renewed %s ago", duration.HumanDuration(max(0, now.Sub(renewed))))
	switch {
	case server.Holder == "":
		s.Text = fmt.Sprintf("no scheduler holds the lease %s: none handles %q now", server.Lease, s.Name)
	case s.Alive:
		s.Text = fmt.Sprintf("%s handles it (lease %s, %s)", server.Holder, server.Lease, told)
	default:
		s.Text = fmt.Sprintf("%s handled it but does not respond: its lease %s was last %s; ask the cluster's administrators", server.Holder, server.Lease, told)
	}
}

// unknown describes a name that no scheduler handles, and the one that may be meant.
func (s *Scheduler) unknown(names []string, seen bool) {
	folded := map[string]string{}
	var candidates []string
	for _, name := range append(names, corev1.DefaultSchedulerName) {
		folded[strings.ToLower(name)] = name
		candidates = append(candidates, strings.ToLower(name))
	}
	s.Nearest = folded[messages.Nearest(strings.ToLower(s.Name), candidates)]
	s.Text = fmt.Sprintf("no scheduler handles %q", s.Name)
	if !seen {
		s.Text += "; leases could not be read"
	}
	if len(names) > 0 {
		s.Text += " (known: " + strings.Join(names, ", ") + ")"
	}
	if s.Nearest != "" {
		s.Text += fmt.Sprintf("; did you mean %q?", s.Nearest)
	}
}

// wasTaken reports whether a scheduler has written to the pod, or placed another of its
// schedulerName. A pod that was created with its node proves nothing about a scheduler.
func wasTaken(in *Input, pod *corev1.Pod) bool {
	if in.Objects != nil && slices.ContainsFunc(in.Objects.Pods(), func(other *corev1.Pod) bool {
		return other.Spec.SchedulerName == pod.Spec.SchedulerName && pending.WasTried(other)
	}) {
		return true
	}
	return pending.WasTried(pod)
}
