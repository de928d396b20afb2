// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "LabelPresence"

// LabelPresence is the plugin. See the package comment.
type LabelPresence struct {
	handle      fwk.Handle
	policy      *policy
	preferences preferences
	// namespaces is nil if nothing depends on a namespace's labels.
	namespaces *namespaceWatch
}

var (
	_ fwk.PreFilterPlugin   = &LabelPresence{}
	_ fwk.FilterPlugin      = &LabelPresence{}
	_ fwk.PreScorePlugin    = &LabelPresence{}
	_ fwk.ScorePlugin       = &LabelPresence{}
	_ fwk.EnqueueExtensions = &LabelPresence{}
	_ fwk.SignPlugin        = &LabelPresence{}
)

// Name returns the name of the plugin.
func (pl *LabelPresence) Name() string { return Name }

// New builds the plugin from args, which must be *config.LabelPresenceArgs and
// valid; the error names every field that is not. It adds event handlers to the
// handle's informers: for namespaces where a namespaceSelector or tenancy needs
// them, and for pods and nodes where tenancy does.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	lpArgs, ok := args.(*config.LabelPresenceArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.LabelPresenceArgs, got %T", args)
	}
	// The root of the paths is the kind: which profile the args belong to is not
	// known here.
	if err := validation.ValidateLabelPresenceArgs(field.NewPath(Name+"Args"), lpArgs); err != nil {
		return nil, err
	}

	registerMetrics()
	profile := handle.ProfileName()
	rules, err := newRules(lpArgs.Rules, profile, func(index int) metrics.CounterMetric {
		return nodeRejections.WithLabelValues(profile, "rules["+strconv.Itoa(index)+"]")
	})
	if err != nil {
		return nil, err
	}
	pl := &LabelPresence{
		handle: handle,
		policy: &policy{
			rules:            rules,
			exemptDaemonPods: lpArgs.DaemonSets == config.DaemonSetsExempt,
		},
		preferences: newPreferences(lpArgs.Preferences),
	}
	if lpArgs.Tenancy != nil {
		pl.policy.tenancy = newTenancy(lpArgs.Tenancy, profile, nodeRejections.WithLabelValues(profile, ruleTenancy))
	}
	if !pl.policy.usesNamespaces() {
		return pl, nil
	}
	if handle.SharedInformerFactory() == nil {
		return nil, fmt.Errorf("%s with a namespaceSelector or tenancy needs a framework with an informer factory", Name)
	}
	if err := pl.watchNamespaces(ctx); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return pl, nil
}

// preFilterStateKey is where PreFilter leaves its result for Filter.
const preFilterStateKey fwk.StateKey = "PreFilter" + Name

// preFilterState is what PreFilter found out about the pod.
type preFilterState struct {
	constraints
	// rejection is nil if no change of the pod's namespace can help it. All clones share it.
	rejection *rejectionRecord
}

// rejectionRecord records once that Filter rejected the pod on some node.
type rejectionRecord struct {
	selected selection
	facts    namespaceFacts
	done     atomic.Bool
}

// Clone returns the state itself. It is never written after PreFilter, but for the record, and it
// does not depend on the pods of a node, which the simulations of preemption
// add and remove.
func (s *preFilterState) Clone() fwk.StateData {
	return s
}

// PreFilter finds out which rules apply to the pod and which tenant owns its
// namespace. It does not narrow the set of nodes: nominated and hinted nodes
// pass by a PreFilterResult, so Filter has to look at every node anyway. Other plugins
// read in the state which nodes tenancy keeps from the pod (plugin.WriteVisible).
func (pl *LabelPresence) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	selected := pl.policy.selectFor(pod)
	var facts namespaceFacts
	if selected.needsNamespace {
		if err := plugin.WaitForSync(ctx, pl.namespaces.synced); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("waiting for the first list of namespaces: %w", err))
		}
		pl.namespaces.rejected.remove(pod.UID) // of the last attempt
		var known bool
		if facts, known = pl.namespaces.get(pod.Namespace); !known {
			pl.recordRejection(klog.FromContext(ctx), pod, selected, nil)
			// Nothing is let through on a guess. The namespace exists, because the
			// pod does; the event that it arrives with wakes the pod. Evicting
			// pods would not help.
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unknownNamespaceReason(pod.Namespace))
		}
	}
	c := pl.policy.constrain(selected, facts)
	if c.none() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s := &preFilterState{constraints: c}
	if selected.needsNamespace {
		s.rejection = &rejectionRecord{selected: selected, facts: facts}
	}
	state.Write(preFilterStateKey, s)
	if c.tenancy != nil {
		plugin.WriteVisible(state, c.tenancy.visibleTo(c.owner))
	}
	return nil, nil
}

// unknownNamespaceReason names the namespace, whose name cannot contain a
// percent sign.
func unknownNamespaceReason(namespace string) string {
	return fmt.Sprintf("namespace %q is not known to the scheduler yet, and LabelPresence needs its labels", namespace)
}

// PreFilterExtensions returns nil: the state does not depend on the pods of a
// node.
func (pl *LabelPresence) PreFilterExtensions() fwk.PreFilterExtensions {
	return nil
}

// Filter rejects a node that breaks tenancy or a rule.
//
// The rejection is unresolvable: evicting pods changes no label and no taint. The Status is a
// fresh one, because the framework writes to it, for several nodes at once.
// Every call counts in the metric, those of preemption's simulations too.
func (pl *LabelPresence) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := plugin.ReadState[*preFilterState](state, preFilterStateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	rejected := s.reject(nodeInfo.Node())
	if rejected == nil {
		return nil
	}
	rejected.counter.Inc()
	if r := s.rejection; r != nil && !r.done.Load() && r.done.CompareAndSwap(false, true) {
		pl.recordRejection(klog.FromContext(ctx), pod, r.selected, &r.facts)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, rejected.reason)
}

// PreScore has nothing to prepare: preferences apply to every pod alike. It
// spares the framework the calls to Score if there are none.
func (pl *LabelPresence) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	if len(pl.preferences.terms) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score rates a node by the preferences that it satisfies.
func (pl *LabelPresence) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	return pl.preferences.score(nodeInfo.Node().Labels), nil
}

// ScoreExtensions returns nil: scores are 0 to 100 already. To stretch them to
// the whole range, as NormalizeScore usually does, would make the least of
// several preferences decide as much as all together whenever the candidates
// differ in that one alone.
func (pl *LabelPresence) ScoreExtensions() fwk.ScoreExtensions {
	return nil
}

// EventsToRegister returns the events of nodes and pods that can make a pod schedulable that
// the plugin rejected. A change of its namespace activates it: see namespaceDelivered.
func (pl *LabelPresence) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		// A new node may pass, and so may one whose labels or taints changed: the
		// taint of tenants' nodes counts. (Without tenancy no taint does; but the
		// scheduler adds UpdateNodeTaint by itself to a plugin that registers Add
		// without it, with a hint that always wakes the pod,
		// kubernetes/kubernetes#109437.)
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint},
			QueueingHintFn: pl.isSchedulableAfterNodeChange,
		},
	}
	if pl.policy.usesPodLabels() {
		// The pending pod's own labels may move it out of a rule's podSelector.
		// The other pod fields that are read do not change: the namespace, and the
		// owner and node affinity of a daemon pod, which its controller sets at
		// creation.
		events = append(events, fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
			QueueingHintFn: pl.isSchedulableAfterPodLabelChange,
		})
	}
	return events, nil
}

// constraintsOf returns what the pod requires of its node, and whether that is known: its
// namespace may not be yet.
func (pl *LabelPresence) constraintsOf(pod *corev1.Pod) (c constraints, known bool) {
	selected := pl.policy.selectFor(pod)
	var facts namespaceFacts
	if selected.needsNamespace {
		if facts, known = pl.namespaces.get(pod.Namespace); !known {
			return constraints{}, false
		}
	}
	return pl.policy.constrain(selected, facts), true
}

// isSchedulableAfterNodeChange queues the pod if the node passes now and did not
// pass before, or was not there. That it did not pass is certain only of what
// this plugin looks at, but then another plugin rejected the node, and the pod is
// activated by that plugin's hint.
func (pl *LabelPresence) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	oldNode, newNode, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	c, known := pl.constraintsOf(pod)
	if !known {
		logger.V(5).Info("Node was created or updated, but the pod's namespace is not known yet", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
		return fwk.QueueSkip, nil
	}
	if rejected := c.reject(newNode); rejected != nil {
		logger.V(5).Info("Node was created or updated, but it is rejected", "pod", klog.KObj(pod), "node", klog.KObj(newNode), "reason", rejected.reason)
		return fwk.QueueSkip, nil
	}
	if oldNode != nil && c.reject(oldNode) == nil {
		logger.V(5).Info("Node was updated, but it passed before too", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Node was created or updated, and it passes now", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
	return fwk.Queue, nil
}

// isSchedulableAfterPodLabelChange queues the pod if it was itself relabeled
// and a rule does not select it any more.
func (pl *LabelPresence) isSchedulableAfterPodLabelChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	oldPod, newPod, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if newPod.UID != pod.UID {
		logger.V(5).Info("Another pod was relabeled", "pod", klog.KObj(pod), "updatedPod", klog.KObj(newPod))
		return fwk.QueueSkip, nil
	}
	after := pl.policy.selectFor(newPod).rules
	for _, i := range pl.policy.selectFor(oldPod).rules {
		if !slices.Contains(after, i) {
			logger.V(5).Info("Pod was relabeled, and a rule does not select it any more", "pod", klog.KObj(pod), "rule", i)
			return fwk.Queue, nil
		}
	}
	logger.V(5).Info("Pod was relabeled, but every rule that selected it still does", "pod", klog.KObj(pod))
	return fwk.QueueSkip, nil
}

// signature is all that the plugin reads of a pod. Two pods with equal
// signatures get the same result and score for every node.
type signature struct {
	// Rules are the indexes of the rules that select the pod.
	Rules []int `json:"rules,omitempty"`
	// Namespace is set only if the labels of the namespace, or its exemption from
	// tenancy, decide something.
	Namespace string `json:"namespace,omitempty"`
}

// SignPod signs every pod: no result depends on other pods. A namespace's labels
// can change between two equal pods, but the node that the first one's result
// proposes for the second still goes through Filter.
func (pl *LabelPresence) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	selected := pl.policy.selectFor(pod)
	value := signature{Rules: selected.rules}
	if selected.needsNamespace {
		value.Namespace = pod.Namespace
	}
	return []fwk.SignFragment{{Key: names.LabelPresenceFragment, Value: value}}, nil
}
