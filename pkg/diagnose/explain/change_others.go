// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// proposeEviction proposes which pods would have to go from the nodes that come nearest.
func proposeEviction(s *situation, add func(*Change)) {
	for _, n := range s.near() {
		if len(n.verdicts) == 0 || slices.ContainsFunc(n.verdicts, isFinal) {
			continue
		}
		for _, pods := range s.evictions(&n) {
			if len(pods) > 0 {
				add(evict(n.node().Name, pods))
			}
		}
	}
}

// isFinal reports whether evicting pods cannot help. The plugins that allocate claims say so of every
// node, because kube-scheduler does not evict pods for claims: but they free their devices.
func isFinal(v engine.Verdict) bool { return !v.Resolvable && !allocatesClaims(v.Plugin) }

// allocatesClaims reports whether the plugin allocates the devices of ResourceClaims.
func allocatesClaims(plugin string) bool {
	return plugin == names.DynamicResources || plugin == deviceclaims.Name
}

// lacksDevices reports whether the pod's claims cannot be allocated on the node.
func (n *nodeFacts) lacksDevices() bool {
	return slices.ContainsFunc(n.verdicts, func(v engine.Verdict) bool { return allocatesClaims(v.Plugin) })
}

// evictions returns sets of pods of one node: each that is enough by itself, as it
// seems, and those that come together in the order of their priority.
func (s *situation) evictions(n *nodeFacts) [][]*corev1.Pod {
	var sets [][]*corev1.Pod
	movable := s.movablePods(n)
	if _, ok := n.has(gpudevice.Name); ok {
		sets = append(sets, s.holders(n, movable)...)
	}
	if n.lacksDevices() {
		sets = append(sets, claimHolders(movable)...)
	}
	if v, ok := n.has(names.NodeResourcesFit); ok {
		sets = append(sets, enough(movable, shortfall.Shortages(s.pod, v.Reasons, n.info))...)
	}
	if _, ok := n.has(names.InterPodAffinity); ok {
		sets = append(sets, intersection(movable, s.inTheWay(n.info)))
	}
	if _, ok := n.has(names.NodePorts); ok {
		sets = append(sets, slices.DeleteFunc(slices.Clone(movable), func(other *corev1.Pod) bool { return conflictingPort(s.pod, other) == 0 }))
	}
	if len(n.verdicts) > 1 {
		sets = append(sets, union(sets))
	}
	if len(movable) <= 4 {
		sets = append(sets, movable)
	}
	return sets
}

// movablePods returns the pods of a node that are not a node's agents, and not of the pod's
// own gang or workload, the lowest priority first.
func (s *situation) movablePods(n *nodeFacts) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, info := range n.info.GetPods() {
		pod := info.GetPod()
		owner := metav1.GetControllerOfNoCopy(pod)
		agent := owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
		if !agent && !s.sibling(pod) && pod.Namespace != metav1.NamespaceSystem && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(v1helper.PodPriority(a), v1helper.PodPriority(b)), cmp.Compare(podText(a), podText(b)))
	})
	return pods
}

// sibling reports whether a pod is of the same gang, or the same controller would recreate
// it.
func (s *situation) sibling(pod *corev1.Pod) bool {
	if pod.Namespace != s.pod.Namespace {
		return false
	}
	if s.gang != nil && podgroup.Of(pod) == podgroup.Of(s.pod) {
		return true
	}
	a, b := metav1.GetControllerOfNoCopy(s.pod), metav1.GetControllerOfNoCopy(pod)
	return a != nil && b != nil && a.Kind == b.Kind && a.Name == b.Name && a.Kind != "Job" // a Job's pods end
}

// holders returns, for each device, the fewest pods whose shares would make room.
func (s *situation) holders(n *nodeFacts, movable []*corev1.Pod) [][]*corev1.Pod {
	d := s.devicesOf(n.info)
	if d.Node.Kind != device.NodeShared || s.request == nil || len(s.request.Containers) == 0 {
		return nil
	}
	if len(d.Unknown) > 0 {
		return [][]*corev1.Pod{slices.DeleteFunc(slices.Clone(movable), func(p *corev1.Pod) bool { return !slices.Contains(d.Unknown, p) })}
	}
	container, share := largest(s.request, d.Node.MemoryMiB)
	var sets [][]*corev1.Pod
	for i := range d.Usage.Devices() {
		free := d.Usage.Free(i)
		var set []*corev1.Pod
		held := slices.Clone(d.Holders[i])
		slices.SortStableFunc(held, func(a, b deviceusage.Holder) int { return cmp.Compare(b.Share.Milli, a.Share.Milli) })
		for _, h := range held {
			if (free.Milli < share.Milli || free.MemoryMiB < share.MemoryMiB) && slices.Contains(movable, h.Pod) {
				set = append(set, h.Pod)
				free.Milli, free.MemoryMiB = free.Milli+h.Share.Milli, free.MemoryMiB+h.Share.MemoryMiB
			}
		}
		if free.Milli >= share.Milli && free.MemoryMiB >= share.MemoryMiB && !d.Usage.Cordoned().Has(i) && len(set) > 0 {
			sets = append(sets, set)
		}
	}
	slices.SortStableFunc(sets, func(a, b []*corev1.Pod) int { return cmp.Compare(len(a), len(b)) })
	if container.Devices > 1 {
		sets = append(sets, union(sets[:min(len(sets), container.Devices)]))
	}
	return sets[:min(len(sets), 4):min(len(sets), 4)]
}

// enough returns the single pods that use enough of everything that is missing or, if there
// are none, as many pods as it takes together.
func enough(movable []*corev1.Pod, missing []shortfall.Shortage) [][]*corev1.Pod {
	var sets [][]*corev1.Pod
	covers := func(pods ...*corev1.Pod) bool {
		return !slices.ContainsFunc(missing, func(l shortfall.Shortage) bool {
			held := int64(0)
			for _, pod := range pods {
				held += heldBy(pod, l.Name)
			}
			return held < l.Asked-l.Free
		})
	}
	for _, pod := range movable {
		if len(sets) < 3 && covers(pod) {
			sets = append(sets, []*corev1.Pod{pod})
		}
	}
	if len(sets) > 0 || len(missing) == 0 {
		return sets
	}
	byPriority := slices.Clone(movable)
	slices.SortStableFunc(byPriority, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(v1helper.PodPriority(a), v1helper.PodPriority(b)), cmp.Compare(heldBy(b, missing[0].Name), heldBy(a, missing[0].Name)))
	})
	for i := range byPriority {
		if covers(byPriority[:i+1]...) {
			return [][]*corev1.Pod{byPriority[:i+1]}
		}
	}
	return nil
}

// heldBy returns how much of a resource the scheduler counts for a pod on a node.
func heldBy(pod *corev1.Pod, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	var held int64
	for i := range pod.Spec.Containers {
		held += requested(&pod.Spec.Containers[i], name)
	}
	return held
}

func intersection(a, b []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(a), func(pod *corev1.Pod) bool { return !slices.Contains(b, pod) })
}

func union(sets [][]*corev1.Pod) []*corev1.Pod {
	var all []*corev1.Pod
	for _, set := range sets {
		for _, pod := range set {
			if !slices.Contains(all, pod) {
				all = append(all, pod)
			}
		}
	}
	return all
}

// evict proposes to wait for the end of pods, or to end them.
func evict(node string, pods []*corev1.Pod) *Change {
	var told []string
	highest := int32(0)
	for _, pod := range pods {
		told = append(told, podText(pod))
		highest = max(highest, v1helper.PodPriority(pod))
	}
	text := fmt.Sprintf("wait for %s on node %s to finish, or ask its owner", told[0], node)
	if len(pods) > 1 {
		text = fmt.Sprintf("wait for %s on node %s to finish (%s), or ask their owners", output.Count(len(pods), "pod"), node, output.List(told, maxListed))
	}
	if highest > 0 {
		text += fmt.Sprintf("; priority up to %d", highest)
	}
	return &Change{Who: OnOthers, Kind: "eviction", cost: 5.5 + 0.3*float64(len(pods)), Text: text, removed: pods}
}
