// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// situation is a pod and the nodes that cannot take it: what proposers look at.
type situation struct {
	in     *Input
	engine *engine.Engine
	// pods are those that are explained and have no node, without gates, and pod is the
	// first of them that finds no node.
	pods []*corev1.Pod
	pod  *corev1.Pod
	// needed is how many of pods have to find a node, and placed how many do as it is.
	needed, placed int
	// gang is nil for pods of none.
	gang *Gang
	// keys are how the pod's profile recognizes the devices of nodes, and devices is whether
	// it allocates shares of them.
	keys    *device.NodeKeys
	devices bool
	// deviceUsage counts what is allocated of devices; nil until it is asked for.
	deviceUsage *deviceusage.Nodes
	// request is what the pod asks of devices; nil if that cannot be understood.
	request *device.Request
	// refusals are those of plugins that reject the pod for all nodes.
	refusals []engine.Verdict
	// nodes are all that cannot take the pod, the nearest first. visible are all that the
	// owner of the pod may know of, including feasible ones. ranking says how far they are.
	nodes   []nodeFacts
	visible []fwk.NodeInfo
	// namespaces are the labels of namespaces; nil until they are asked for.
	namespaces map[string]labels.Set
	ranking    *shortfall.Ranking
	total      int
	// tries counts trials, which makes the UIDs of their pods differ.
	tries int
}

// near returns the nodes that proposers look at: the nearest of each group, a few of
// the nearest groups.
func (s *situation) near() []nodeFacts { return s.nearest(false) }

// nearest is near, with or without the nodes that are hidden from the owner of the pod.
func (s *situation) nearest(hidden bool) []nodeFacts {
	const groups, each = 12, 3
	count := map[string]int{}
	var found []nodeFacts
	for _, n := range s.nodes {
		key := n.key()
		if n.hidden() && !hidden {
			continue
		}
		if count[key] >= each || count[key] == 0 && len(count) >= groups {
			continue
		}
		count[key]++
		found = append(found, n)
	}
	return found
}

// refusal returns why the plugin rejects the pod for all nodes, or "".
func (s *situation) refusal(plugin string) string {
	for _, v := range s.refusals {
		if v.Plugin == plugin {
			return strings.Join(v.Reasons, ", ")
		}
	}
	return ""
}

// runs reports whether the pod's profile runs the plugin.
func (s *situation) runs(plugin string) bool {
	effective, ok := s.engine.Profiles()[s.pod.Spec.SchedulerName]
	return ok && registry.RunsIn(effective, plugin)
}

// others are the objects of one type.
func others[T runtime.Object](in *Input) []T {
	var found []T
	for _, object := range in.Objects.Others() {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// namesOf returns the names of the objects of one type in the namespace of the pod.
func namesOf[T metav1.Object](s *situation) []string {
	var found []string
	for _, object := range s.in.Objects.Others() {
		if typed, ok := object.(T); ok && typed.GetNamespace() == s.pod.Namespace {
			found = append(found, typed.GetName())
		}
	}
	return found
}

// argsOf returns the arguments of a plugin in the pod's profile.
func argsOf[T any](in *Input, schedulerName string) (args T, ok bool) {
	for i := range in.Config.Profiles {
		if in.Config.Profiles[i].SchedulerName != schedulerName {
			continue
		}
		for _, entry := range in.Config.Profiles[i].PluginConfig {
			if args, ok := entry.Args.(T); ok {
				return args, true
			}
		}
	}
	return args, false
}

// readDevices finds out what the pod asks of devices, and how nodes describe theirs.
func (s *situation) readDevices() {
	keys := device.DefaultNodeKeys()
	s.keys, s.devices, s.deviceUsage = &keys, s.runs(gpudevice.Name), nil
	if args, ok := argsOf[*config.GPUDeviceArgs](s.in, s.pod.Spec.SchedulerName); ok {
		s.keys = gpudevice.NodeKeys(args)
	}
	s.request = nil
	if request, err := device.ParsePod(s.pod, s.keys); err == nil {
		s.request = request
	}
}

// asGroup reports whether the engine places the pods as the members of a PodGroup.
func (s *situation) asGroup() bool {
	return s.gang != nil && s.gang.native && s.gang.Found && s.engine.PlacesPodGroups()
}

// setMinCount sets how many members of the pods' PodGroup start together.
func (s *situation) setMinCount(ctx context.Context, members int) error {
	if !s.asGroup() {
		return nil
	}
	return s.engine.SetMinCount(ctx, s.pod.Namespace, podgroup.Of(s.pod).Name, members)
}

// placeEach is place where each pod that finds a node gets it, whether the others do or not:
// how many would fit matters where they are too few.
func (s *situation) placeEach(ctx context.Context, pods []*corev1.Pod) (placed int, first engine.Result, failed *corev1.Pod, err error) {
	if err := s.setMinCount(ctx, 0); err != nil {
		return 0, engine.Result{}, nil, err
	}
	placed, first, failed, err = s.place(ctx, pods)
	if s.asGroup() {
		err = errors.Join(err, s.setMinCount(ctx, s.gang.Needed))
	}
	return placed, first, failed, err
}

// place lets the pods come one after the other, or as a PodGroup. It returns how many found a
// node, the result of the first, and the first pod without a node; nil if all have one. The
// pods stay until they are removed.
func (s *situation) place(ctx context.Context, pods []*corev1.Pod) (placed int, first engine.Result, failed *corev1.Pod, err error) {
	if s.asGroup() {
		group, err := s.engine.TryPodGroup(ctx, pods)
		if err != nil {
			return 0, engine.Result{}, nil, err
		}
		for i := range group.Members {
			if group.Members[i].Node != "" {
				placed++
			} else {
				failed = cmp.Or(failed, pods[i])
			}
		}
		return placed, group.Members[0], failed, nil
	}
	for i, pod := range pods {
		result, err := s.engine.Try(ctx, pod)
		if err != nil {
			return placed, first, failed, err
		}
		if i == 0 {
			first = result
		}
		if result.Node == "" {
			failed = cmp.Or(failed, pod)
			continue
		}
		placed++
	}
	return placed, first, failed, nil
}

// remove takes the pods away again.
func (s *situation) remove(ctx context.Context, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		errs = append(errs, s.engine.Delete(ctx, pod.Namespace, pod.Name))
	}
	return errors.Join(errs...)
}

// arriving returns the pods as they would be created, with the change made.
func (s *situation) arriving(change *Change) []*corev1.Pod {
	s.tries++
	count := len(s.pods)
	if change != nil {
		count = change.Count(count)
	}
	pods := make([]*corev1.Pod, 0, count)
	for i := range count {
		pod := s.pods[min(i, len(s.pods)-1)].DeepCopy()
		if i >= len(s.pods) {
			pod.Name = fmt.Sprintf("%s-%d", pod.Name, i)
		}
		pod.UID = types.UID(fmt.Sprintf("%s/%d/try-%d", pod.UID, i, s.tries))
		if change != nil {
			change.Edit(pod)
		}
		pods = append(pods, pod)
	}
	return pods
}

// try makes the change, lets the pods come, and puts everything back. It returns the
// node of the first pod; "" if the change does not help, or if an object cannot be changed
// so. An error is that of ctx, or of putting things back.
func (s *situation) try(ctx context.Context, change *Change) (node string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	set, removed := change.Objects()
	for _, pod := range removed {
		if err := s.engine.Remove(ctx, pod); err != nil {
			return "", err
		}
	}
	for _, object := range set {
		if err := s.engine.Set(ctx, object); err != nil {
			return "", err
		}
	}
	pods := s.arriving(change)
	if change.gang > 0 {
		if err := s.setMinCount(ctx, change.gang); err != nil {
			return "", err
		}
		defer func() {
			if s.asGroup() {
				err = errors.Join(err, s.setMinCount(ctx, s.gang.Needed))
			}
		}()
	}
	if placed, first, _, err := s.place(ctx, pods); err == nil && placed >= s.neededWith(change, len(pods)) {
		node = first.Node
	}
	return node, errors.Join(ctx.Err(), s.remove(ctx, pods), s.putBack(ctx, change, removed))
}

// neededWith returns how many of so many pods have to find a node with the change.
func (s *situation) neededWith(change *Change, pods int) int {
	if change.gang > 0 && s.gang != nil {
		return max(1, change.gang-s.gang.Bound)
	}
	if change.count > 0 {
		return pods
	}
	return s.needed
}

// putBack undoes the change.
func (s *situation) putBack(ctx context.Context, change *Change, removed []*corev1.Pod) error {
	var errs []error
	seen := map[string]bool{}
	for _, e := range change.edits {
		if seen[keyOf(e.object)] {
			continue
		}
		seen[keyOf(e.object)] = true
		if e.change == nil {
			errs = append(errs, s.engine.Remove(ctx, e.object))
		} else {
			errs = append(errs, s.engine.Set(ctx, e.object))
		}
	}
	for _, pod := range removed {
		errs = append(errs, s.restore(ctx, pod))
	}
	return errors.Join(errs...)
}

// restore puts back a pod of the input that was removed, with its claims: they lost it, and
// perhaps their devices, when it went.
func (s *situation) restore(ctx context.Context, pod *corev1.Pod) error {
	var errs []error
	names := cluster.ClaimsOf(pod)
	for _, claim := range others[*resourcev1.ResourceClaim](s.in) {
		if claim.Namespace == pod.Namespace && slices.Contains(names, claim.Name) {
			errs = append(errs, s.engine.Set(ctx, claim))
		}
	}
	return errors.Join(errors.Join(errs...), s.engine.Set(ctx, pod))
}

// nodeFacts is a node that cannot take the pod.
type nodeFacts struct {
	info     fwk.NodeInfo
	verdicts []engine.Verdict
	distance shortfall.Distance
}

func (n *nodeFacts) node() *corev1.Node { return n.info.Node() }

// key is equal for the nodes of a group.
func (n *nodeFacts) key() string {
	parts := make([]string, 0, len(n.verdicts))
	for _, v := range n.verdicts {
		parts = append(parts, v.Plugin+": "+strings.Join(v.Reasons, ", "))
	}
	return strings.Join(parts, "; ")
}

func (n *nodeFacts) has(plugin string) (engine.Verdict, bool) {
	i := slices.IndexFunc(n.verdicts, func(v engine.Verdict) bool { return v.Plugin == plugin })
	if i < 0 {
		return engine.Verdict{}, false
	}
	return n.verdicts[i], true
}
