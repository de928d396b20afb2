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

	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
)

// GangName returns the name of the PodGroup that the pod names, Kubernetes' own or, by a
// label, Coscheduling's; "" if it is of none.
func GangName(pod *corev1.Pod) string {
	if isNative(pod) {
		return *pod.Spec.SchedulingGroup.PodGroupName
	}
	return pod.Labels[registry.PodGroupLabel]
}

// isNative reports whether the pod is of one of Kubernetes' own PodGroups.
func isNative(pod *corev1.Pod) bool {
	return pod.Spec.SchedulingGroup != nil && pod.Spec.SchedulingGroup.PodGroupName != nil
}

// gangOf returns the gang of the pod, nil if it is of none.
func gangOf(in *Input, pod *corev1.Pod) *Gang {
	name := GangName(pod)
	if name == "" {
		return nil
	}
	g := &Gang{Name: pod.Namespace + "/" + name, native: isNative(pod)}
	if group := findGroup(in, pod, name); group != nil {
		g.Found, g.Needed = true, group.MinMember
	}
	if g.Found && g.native && g.Needed == 0 {
		return nil // its members start one by one
	}
	for _, member := range members(in, pod, name) {
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
		g.Text = fmt.Sprintf("PodGroup %s (%s), which spec.schedulingGroup names, does not exist or was not seen: create it", g.Name, schedulingv1.GroupName)
	case !g.Found:
		g.Text = pending.GangNotFound(g.Name, registry.PodGroupLabel)
	case g.Members < g.Needed:
		g.Text = pending.GangIncomplete(g.Name, g.Members, int64(g.Needed))
	case g.Bound+g.Fit < g.Needed:
		g.Text = fmt.Sprintf("gang %s: %d of its %d members would find a node at the same time, and they start together or not at all", g.Name, g.Bound+g.Fit, g.Needed)
	default:
		g.Text = fmt.Sprintf("gang %s: all of its %d members find a node", g.Name, g.Needed)
	}
}

// findGroup returns the PodGroup of this name and of the same kind as the pod's own.
func findGroup(in *Input, pod *corev1.Pod, name string) *PodGroup {
	i := slices.IndexFunc(in.PodGroups, func(g PodGroup) bool {
		return g.Namespace == pod.Namespace && g.Name == name && g.Native == isNative(pod)
	})
	if i < 0 {
		return nil
	}
	return &in.PodGroups[i]
}

// members are the pods of the gang of this name, of the same kind as the pod's own: those of the cluster, and those that are explained.
func members(in *Input, like *corev1.Pod, name string) []*corev1.Pod {
	found := map[string]*corev1.Pod{}
	var pods []*corev1.Pod
	if in.Objects != nil {
		pods = in.Objects.Pods()
	}
	for _, pod := range slices.Concat(pods, in.Pods) {
		if pod.Namespace == like.Namespace && GangName(pod) == name && isNative(pod) == isNative(like) {
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
	if name := GangName(pod); name != "" && findGroup(in, pod, name) != nil {
		for _, member := range members(in, pod, name) {
			if member.Name != pod.Name && member.Spec.NodeName == "" && member.DeletionTimestamp == nil {
				all = append(all, member)
			}
		}
	}
	return all
}

// noSuchGang proposes the PodGroup that is meant, if there is one like it, and tries
// whether its members find room with this pod among them.
func (x *Explanation) noSuchGang(ctx context.Context, s *situation) error {
	x.State, x.Answer = Waiting, fmt.Sprintf("Pod %s is Pending: %s.", x.Pod, s.gang.Text)
	var there []string
	for _, g := range s.in.PodGroups {
		if g.Namespace == s.pod.Namespace && g.Native == s.gang.native {
			there = append(there, g.Name)
		}
	}
	slices.Sort(there)
	meant := messages.Nearest(GangName(s.pod), there)
	if meant == "" {
		return nil
	}
	pods, bound := s.pods, 0
	for _, member := range members(s.in, s.pod, meant) {
		if member.Spec.NodeName != "" {
			bound++
		} else if member.DeletionTimestamp == nil {
			pods = append(slices.Clone(pods), member)
		}
	}
	needed := findGroup(s.in, s.pod, meant).MinMember
	if err := s.remove(ctx, pods); err != nil {
		return err
	}
	change := &Change{
		Who: OnPod, Kind: "podGroup", Text: fmt.Sprintf("set the label %s to %q, which is a PodGroup", registry.PodGroupLabel, meant),
		pod: func(pod *corev1.Pod) {
			pod.Labels = maps.Clone(pod.Labels)
			pod.Labels[registry.PodGroupLabel] = meant
		},
	}
	if s.gang.native {
		change.Text = fmt.Sprintf("recreate the pod with spec.schedulingGroup.podGroupName: %s, which is a PodGroup", meant)
		change.pod = func(pod *corev1.Pod) { pod.Spec.SchedulingGroup.PodGroupName = &meant }
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
