// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Who is who can make a change, by what is changed.
type Who string

const (
	// OnPod is for whoever wrote the pod.
	OnPod Who = "pod"
	// OnNode is for whoever may change nodes.
	OnNode Who = "node"
	// OnOthers is about other pods, or what other people own.
	OnOthers Who = "others"
	// OnCluster is for the administrators of the cluster.
	OnCluster Who = "cluster"
)

// Change is something that gives the pod a node: the engine has placed it so, or all
// pods of the workload.
type Change struct {
	Who Who `json:"who"`
	// Kind is what is done, in one word for programs.
	Kind string `json:"kind"`
	// Text is what to do, and Command a command that does it, if one does.
	Text    string `json:"change"`
	Command string `json:"command,omitempty"`
	// Node is where the pod was placed with it.
	Node string `json:"node"`

	// cost orders changes: small is little work and little harm.
	cost float64
	// last is the place of the change, or of the last of those that it combines, among
	// all that are proposed.
	last int
	// fields are those of the pod that it sets, where several of its kind may be needed.
	fields []string
	// pod is applied to each pod that is explained, before it is created.
	pod func(*corev1.Pod)
	// like is the pod that it is proposed for: members of a gang that ask for something
	// else stay as they are. Nil is any.
	like *corev1.Pod
	// count is how many pods of the workload there are then; 0 for as many as there are.
	count int
	// extra is how many copies of the last pod come besides.
	extra int
	// gang is how many members the gang then needs; 0 for as many as it does.
	gang int
	// edits are made on objects, in their order, and removed pods are deleted first.
	edits   []edit
	removed []*corev1.Pod
}

// edit is a change of one object, or a new one.
type edit struct {
	object runtime.Object
	change func(runtime.Object)
}

// Edit makes the change on a pod that is explained.
func (c *Change) Edit(pod *corev1.Pod) {
	if c.pod != nil && (c.like == nil || alike(pod, c.like)) {
		c.pod(pod)
	}
}

// alike reports whether two pods ask a scheduler for the same.
func alike(a, b *corev1.Pod) bool {
	asks := func(pod *corev1.Pod) []any {
		own := map[string]string{}
		for key, value := range pod.Annotations {
			if strings.HasPrefix(key, names.Prefix) {
				own[key] = value
			}
		}
		s := &pod.Spec
		// The names of volumes of tokens differ from pod to pod.
		all := []any{s.SchedulerName, s.NodeSelector, s.Affinity, s.Tolerations, s.TopologySpreadConstraints, len(s.Volumes), own}
		for _, c := range slices.Concat(s.InitContainers, s.Containers) {
			all = append(all, c.Name, c.Resources, c.Ports)
		}
		return all
	}
	return equality.Semantic.DeepEqual(asks(a), asks(b))
}

// Count returns how many pods a workload of so many has with the change.
func (c *Change) Count(pods int) int { return cmp.Or(c.count, pods+c.extra) }

// Gang returns how many members the gang needs with the change; 0 for as many as without.
func (c *Change) Gang() int { return c.gang }

// Objects returns the objects that are other than before, or new, and the pods that are
// deleted.
func (c *Change) Objects() (set []runtime.Object, removed []*corev1.Pod) {
	var keys []string
	byKey := map[string]runtime.Object{}
	for _, e := range c.edits {
		key := keyOf(e.object)
		if byKey[key] == nil {
			byKey[key] = e.object.DeepCopyObject()
			keys = append(keys, key)
		}
		if e.change != nil {
			e.change(byKey[key])
		}
	}
	for _, key := range keys {
		set = append(set, byKey[key])
	}
	return set, c.removed
}

// keyOf tells objects apart.
func keyOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Sprintf("%p", object)
	}
	return fmt.Sprintf("%T/%s", object, klog.KRef(accessor.GetNamespace(), accessor.GetName()))
}

// podChange is a change of the pods that are explained. It gets a copy of each to write to.
func podChange(kind string, cost float64, change func(*corev1.Pod), format string, args ...any) *Change {
	return &Change{Who: OnPod, Kind: kind, cost: cost, Text: fmt.Sprintf(format, args...), pod: change}
}

// nodeChange is a change of a node. It gets a copy to write to.
func nodeChange(kind string, cost float64, node *corev1.Node, change func(*corev1.Node), format string, args ...any) *Change {
	return &Change{Who: OnNode, Kind: kind, cost: cost, Text: fmt.Sprintf(format, args...), edits: []edit{editOf(node, change)}}
}

// by adds the command that makes the change.
func (c *Change) by(format string, args ...any) *Change {
	c.Command = fmt.Sprintf(format, args...)
	return c
}

func editOf[T runtime.Object](object T, change func(T)) edit {
	return edit{object: object, change: func(object runtime.Object) {
		if typed, ok := object.(T); ok {
			change(typed)
		}
	}}
}

// both is two changes made together.
func both(a, b *Change) *Change {
	c := *a
	c.Kind = a.Kind + "+" + b.Kind
	c.Text = a.Text + "; and " + b.Text
	c.Command = strings.Trim(a.Command+" && "+b.Command, " &")
	if a.Who != b.Who && a.Who == OnPod {
		c.Who = b.Who // who else is needed
	}
	c.cost, c.last = a.cost+b.cost, b.last
	c.pod = func(pod *corev1.Pod) {
		// Not by Edit: after the first change the pod is like that one no more.
		for _, one := range []*Change{a, b} {
			if one.pod != nil {
				one.pod(pod)
			}
		}
	}
	c.count, c.gang, c.extra = cmp.Or(a.count, b.count), cmp.Or(a.gang, b.gang), cmp.Or(a.extra, b.extra)
	c.fields = slices.Concat(a.fields, b.fields)
	c.edits = slices.Concat(a.edits, b.edits)
	c.removed = slices.Concat(a.removed, b.removed)
	return &c
}

// proposer adds changes that might help. They are tried in the order of their cost.
type proposer func(s *situation, add func(*Change))

// proposed returns what the proposers add, without repetitions, the cheapest first.
func (s *situation) proposed(proposers ...proposer) []*Change {
	var changes []*Change
	seen := map[string]bool{}
	for _, propose := range proposers {
		propose(s, func(change *Change) {
			if !seen[change.Text] {
				seen[change.Text] = true
				changes = append(changes, change)
			}
		})
	}
	return sorted(changes)
}

// proposers are all kinds of changes.
func proposers() []proposer {
	return []proposer{
		proposeSchedulerName,
		proposeKeys,
		proposeTolerations,
		proposeNodeSelector,
		proposeNodeAffinity,
		proposeDeviceValues,
		proposeDeviceModel,
		proposeSmallerShare,
		proposeSmallerRequests,
		proposePodAffinity,
		proposeSpread,
		proposePorts,
		proposeColocation,
		proposeClaims,
		proposeDeviceRequests,
		proposeGang,
		proposeReplicas,
		proposeUncordon,
		proposeUntaint,
		proposeLabels,
		proposeRuleLabels,
		proposeTenancy,
		proposeSharing,
		proposeEviction,
		proposeNode,
	}
}
