// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// gangOf returns the gang of the pod, nil if it is of none.
func gangOf(in *Input, pod *corev1.Pod) *Gang {
	ref := podgroup.Of(pod)
	if ref.Name == "" {
		return nil
	}
	g := &Gang{Name: ref.String(), native: ref.Native}
	if group := findGroup(in, ref); group != nil {
		g.Found, g.Needed = true, group.MinMember
	}
	if g.Found && g.native && g.Needed == 0 {
		return nil // its members start one by one
	}
	for _, member := range members(in, ref) {
		g.Members++
		if member.Spec.NodeName != "" {
			g.Bound++
		}
	}
	g.tell()
	return g
}

// tell says the state of the gang in a sentence.
func (g *Gang) tell() {
	switch {
	case !g.Found && g.native:
		g.Text = fmt.Sprintf("PodGroup %s (%s), which spec.schedulingGroup names, does not exist or could not be read: create it", g.Name, schedulingv1.GroupName)
	case !g.Found:
		g.Text = pending.GangNotFound(g.Name, podgroup.Label)
	case g.Members < g.Needed:
		g.Text = pending.GangIncomplete(g.Name, g.Members, int64(g.Needed))
	case g.Bound+g.Fit < g.Needed:
		g.Text = fmt.Sprintf("gang %s: %d of its %d members would find a node at the same time; they start together or not at all", g.Name, g.Bound+g.Fit, g.Needed)
	default:
		g.Text = fmt.Sprintf("gang %s: all of its %d members find a node", g.Name, g.Needed)
	}
}

// findGroup returns the PodGroup of this name, nil if there is none.
func findGroup(in *Input, ref podgroup.Ref) *PodGroup {
	i := slices.IndexFunc(in.PodGroups, func(g PodGroup) bool { return g.ref() == ref })
	if i < 0 {
		return nil
	}
	return &in.PodGroups[i]
}

func (g *PodGroup) ref() podgroup.Ref {
	return podgroup.Ref{NamespacedName: types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, Native: g.Native}
}

// members are the pods of the gang by name: those of the cluster, and those that are
// explained.
func members(in *Input, ref podgroup.Ref) []*corev1.Pod {
	found := map[string]*corev1.Pod{}
	var pods []*corev1.Pod
	if in.Objects != nil {
		pods = in.Objects.Pods()
	}
	for _, pod := range slices.Concat(pods, in.Pods) {
		if podgroup.Of(pod) == ref {
			found[pod.Name] = pod
		}
	}
	sorted := make([]*corev1.Pod, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		sorted = append(sorted, found[name])
	}
	return sorted
}

// Members returns the pods that are to be explained with the pod, the pod first: the
// members of its gang that have no node, or the pod alone.
func Members(in *Input, pod *corev1.Pod) []*corev1.Pod {
	all := []*corev1.Pod{pod}
	if ref := podgroup.Of(pod); ref.Name != "" && findGroup(in, ref) != nil {
		for _, member := range members(in, ref) {
			if member.Name != pod.Name && member.Spec.NodeName == "" && member.DeletionTimestamp == nil {
				all = append(all, member)
			}
		}
	}
	return all
}

// noSuchGang proposes a PodGroup with a similar name, if there is one, and tries whether its
// members fit together with this pod.
func (x *Explanation) noSuchGang(ctx context.Context, s *situation) error {
	x.State, x.Answer = Waiting, fmt.Sprintf("Pod %s is Pending: %s.", x.Pod, s.gang.Text)
	var there []string
	for _, g := range s.in.PodGroups {
		if g.Namespace == s.pod.Namespace && g.Native == s.gang.native {
			there = append(there, g.Name)
		}
	}
	slices.Sort(there)
	ref := podgroup.Of(s.pod)
	meant := messages.Nearest(ref.Name, there)
	if meant == "" {
		return nil
	}
	ref.Name = meant
	pods, bound := s.pods, 0
	for _, member := range members(s.in, ref) {
		if member.Spec.NodeName != "" {
			bound++
		} else if member.DeletionTimestamp == nil {
			pods = append(slices.Clone(pods), member)
		}
	}
	needed := findGroup(s.in, ref).MinMember
	if err := s.remove(ctx, pods); err != nil {
		return err
	}
	rename := func(pod *corev1.Pod) { pod.Labels[podgroup.Label] = meant }
	change := podChange("podGroup", 0, rename, "set the label %s to %q, an existing PodGroup", podgroup.Label, meant)
	if s.gang.native {
		rename = func(pod *corev1.Pod) { pod.Spec.SchedulingGroup.PodGroupName = &meant }
		change = podChange("podGroup", 0, rename, "recreate the pod with spec.schedulingGroup.podGroupName: %s, an existing PodGroup", meant)
		s.gang = &Gang{Found: true, native: true, Needed: needed}
	}
	s.pods, s.needed = pods, max(1, needed-bound)
	var err error
	if len(pods)+bound >= needed {
		change.Node, err = s.try(ctx, change)
	}
	if change.Node != "" {
		x.Changes = append(x.Changes, *change)
	}
	return errors.Join(err, ctx.Err())
}
