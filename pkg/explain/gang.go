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

	"github.com/berth-scheduler/berth/pkg/pending"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/spelling"
)

// GangLabel returns the name of the PodGroup that the pod names, "" if it is of none.
func GangLabel(pod *corev1.Pod) string { return pod.Labels[registry.PodGroupLabel] }

// gangOf returns the gang of the pod, nil if it is of none.
func gangOf(in *Input, pod *corev1.Pod) *Gang {
	name := GangLabel(pod)
	if name == "" {
		return nil
	}
	g := &Gang{Name: pod.Namespace + "/" + name}
	if group := findGroup(in, pod.Namespace, name); group != nil {
		g.Found, g.Needed = true, group.MinMember
	}
	for _, member := range members(in, pod.Namespace, name) {
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

func findGroup(in *Input, namespace, name string) *PodGroup {
	i := slices.IndexFunc(in.PodGroups, func(g PodGroup) bool { return g.Namespace == namespace && g.Name == name })
	if i < 0 {
		return nil
	}
	return &in.PodGroups[i]
}

// members are the pods of a gang: those of the cluster, and those that are explained.
func members(in *Input, namespace, name string) []*corev1.Pod {
	found := map[string]*corev1.Pod{}
	var pods []*corev1.Pod
	if in.Objects != nil {
		pods = in.Objects.Pods()
	}
	for _, pod := range slices.Concat(pods, in.Pods) {
		if pod.Namespace == namespace && GangLabel(pod) == name {
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
	if name := GangLabel(pod); name != "" && findGroup(in, pod.Namespace, name) != nil {
		for _, member := range members(in, pod.Namespace, name) {
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
		if g.Namespace == s.pod.Namespace {
			there = append(there, g.Name)
		}
	}
	slices.Sort(there)
	meant := spelling.Nearest(GangLabel(s.pod), there)
	if meant == "" {
		return nil
	}
	pods, bound := s.pods, 0
	for _, member := range members(s.in, s.pod.Namespace, meant) {
		if member.Spec.NodeName != "" {
			bound++
		} else if member.DeletionTimestamp == nil {
			pods = append(slices.Clone(pods), member)
		}
	}
	needed := findGroup(s.in, s.pod.Namespace, meant).MinMember
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
