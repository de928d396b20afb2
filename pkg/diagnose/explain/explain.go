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
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// Explain says why the pods have no node, and what would give them one. A pod without a node
// is not an error: errors are a profile from which no scheduler can be built, missing objects
// that a plugin needs, and that of ctx.
func Explain(ctx context.Context, in *Input) (*Explanation, error) {
	if len(in.Pods) == 0 {
		return nil, errors.New("no pod to explain")
	}
	pod := in.Pods[0]
	x := &Explanation{
		FormatVersion: FormatVersion, Pod: podText(pod), Of: cmp.Or(in.Of, controllerOf(pod)),
		Scheduler: servedBy(in, pod), Gates: gatesOf(pod), NotSeen: in.NotSeen, Message: messageOf(pod), Node: pod.Spec.NodeName,
	}
	if len(in.Pods) > 1 {
		x.Pods = len(in.Pods)
	}
	refused := notAdmitted(in)
	x.Admission = append(queuedBy(in, pod), refused...)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		x.State, x.Answer = Bound, fmt.Sprintf("Pod %s has ended (%s): it needs no node.", x.Pod, pod.Status.Phase)
		return x, nil
	case in.Objects == nil || in.Incomplete || in.Config == nil:
		x.unseen(in, pod)
		return x, nil
	}
	e, gangs, err := newEngine(ctx, in)
	if err != nil {
		return nil, err
	}
	s := &situation{in: in, engine: e, pod: pod}
	err = x.explain(ctx, s, gangs)
	return x, errors.Join(err, e.Close())
}

// newEngine builds the engine, and reports whether the profiles place gangs of Coscheduling.
// That plugin cannot be simulated: its work is done here, and all other plugins decide as
// usual.
func newEngine(ctx context.Context, in *Input) (*engine.Engine, bool, error) {
	configuration, gangs := engine.WithoutGangs(in.Config)
	e, err := engine.New(ctx, engine.Options{Config: configuration, Parallelism: in.Parallelism, Preemption: true}, in.Objects)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", in.Profile, err)
	}
	for _, group := range in.PodGroups {
		if group.Native && e.PlacesPodGroups() {
			err = errors.Join(err, e.SetMinCount(ctx, group.Namespace, group.Name, group.MinMember))
		}
	}
	if err != nil {
		return nil, false, errors.Join(err, e.Close())
	}
	return e, gangs, nil
}

// explain fills in all that takes an engine.
func (x *Explanation) explain(ctx context.Context, s *situation, gangs bool) error {
	x.Nodes = len(s.in.Objects.Nodes())
	x.Keys = keysOf(s, gangs)
	// Every trial creates the pods again.
	if err := s.remove(ctx, s.in.Pods); err != nil {
		return err
	}
	if s.pod.Spec.NodeName != "" {
		return x.rechoose(ctx, s)
	}
	for _, pod := range s.in.Pods {
		if pod.Spec.NodeName == "" {
			pod = pod.DeepCopy()
			pod.Spec.SchedulingGates, pod.Status.NominatedNodeName = nil, ""
			s.pods = append(s.pods, pod)
		}
	}
	s.pod, s.needed = s.pods[0], len(s.pods)
	if gangs || podgroup.Of(s.pod).Native {
		s.gang = gangOf(s.in, s.pod)
		x.Gang = s.gang
	}
	if s.gang != nil {
		s.needed = max(1, s.gang.Needed-s.gang.Bound)
	}
	s.readDevices()
	switch {
	case !s.engine.Handles(s.pod):
		return x.notServed(ctx, s)
	case s.gang != nil && !s.gang.Found:
		return x.noSuchGang(ctx, s)
	}
	return x.tryAll(ctx, s)
}

// missed reports whether too few pods found a node or, where a single pod is explained,
// that pod found none.
func (s *situation) missed(placed int, first *engine.Result) bool {
	return placed < s.needed || s.in.Of == "" && first.Node == ""
}

// tryAll lets the pods come unchanged, and looks for changes if not all of them find a node.
func (x *Explanation) tryAll(ctx context.Context, s *situation) error {
	pods := s.arriving(nil)
	placed, first, failed, err := s.placeEach(ctx, pods)
	if err != nil {
		return errors.Join(err, s.remove(ctx, pods))
	}
	s.placed = placed
	if x.Pods > 0 || s.gang != nil {
		x.Placed = placed
	}
	x.Approximate = approximate(s)
	missed := s.missed(placed, &first)
	enough := !missed
	if s.gang != nil {
		s.gang.Fit = placed
		s.gang.tell()
		enough = enough && s.gang.Members >= s.gang.Needed
	}
	if failed != nil && missed {
		s.pod = failed
		s.readDevices()
		d, err := s.engine.Diagnose(ctx, failed)
		if err != nil {
			return errors.Join(err, s.remove(ctx, pods))
		}
		s.rank(d)
		x.Refusals, x.Groups = refusals(d), s.groups()
		if err := x.preempt(ctx, s, failed, pods); err != nil {
			return err
		}
	}
	x.feasible(&first)
	if err := s.remove(ctx, pods); err != nil {
		return err
	}
	if !enough && ctx.Err() == nil {
		if x.Changes, err = s.changes(ctx); err != nil {
			return err
		}
	}
	x.conclude(s, first.Node, enough)
	return nil
}

// refusals returns those of a diagnosis, as they are written.
func refusals(d *engine.Diagnosis) []Verdict {
	var told []Verdict
	for _, v := range slices.Concat(d.Gates, d.Refusals) {
		told = append(told, Verdict{Plugin: v.Plugin, Reason: strings.Join(v.Reasons, ", "), Resolvable: v.Resolvable})
	}
	return told
}

// preempt finds out which pods the scheduler would evict for the pod, the first of pods that
// finds no node, or for the gang of pods as a whole, and puts all back.
func (x *Explanation) preempt(ctx context.Context, s *situation, pod *corev1.Pod, pods []*corev1.Pod) error {
	gang := s.asGroup() && s.gang.Members >= s.gang.Needed
	if len(x.Gates) > 0 || !gang && (len(s.in.Pods) > 1 || s.gang != nil) {
		return nil
	}
	nominated := sets.New[string]()
	for _, pod := range s.in.Pods {
		if node := pod.Status.NominatedNodeName; pod.Spec.NodeName == "" && node != "" {
			nominated.Insert(node)
		}
	}
	if nominated.Len() > 0 {
		x.Preemption = preemptionOn(gang, sets.List(nominated))
		x.Preemption.Text = fmt.Sprintf("the scheduler has evicted pods %s, and waits until they are gone", x.Preemption.Text)
		return nil
	}
	nodes, victims, err := s.placeWithPreemption(ctx, gang, pod, pods)
	if err != nil {
		return err
	}
	if len(nodes) > 0 && len(victims) > 0 {
		x.Preemption = preemptionOn(gang, nodes)
		x.Preemption.Victims = victims
		x.Preemption.Text = fmt.Sprintf("the scheduler makes room %s and evicts %s, of lower priority", x.Preemption.Text, output.List(victims, maxListed))
		return nil
	}
	x.evictNone(s, pod, gang)
	return nil
}

// preemptionOn is preemption on nodes, whose text says where, and for whom if for a gang.
func preemptionOn(gang bool, nodes []string) *Preemption {
	where := "node " + nodes[0]
	if len(nodes) > 1 {
		where = "nodes " + output.List(nodes, maxListed)
	}
	if gang {
		return &Preemption{Nodes: nodes, Text: "for the gang (" + where + ")"}
	}
	return &Preemption{Node: nodes[0], Text: "on " + where}
}

// placeWithPreemption lets the pod, or the gang of pods, evict others, and puts all back. It
// returns the nodes where enough members would be, and the pods evicted for them.
func (s *situation) placeWithPreemption(ctx context.Context, gang bool, pod *corev1.Pod, pods []*corev1.Pod) (nodes, names []string, err error) {
	var victims []*corev1.Pod
	arriving, needed, found := []*corev1.Pod{pod}, 1, []string{}
	if gang {
		arriving, needed = pods, s.needed
		if err := s.remove(ctx, pods); err != nil {
			return nil, nil, err
		}
		var group engine.PodGroupResult
		if group, err = s.engine.SchedulePodGroup(ctx, pods); err == nil {
			victims = group.Members[0].Victims
			for i := range group.Members {
				found = append(found, group.Members[i].Node)
			}
		}
	} else {
		var result engine.Result
		result, err = s.engine.Schedule(ctx, pod)
		victims, found = result.Victims, append(found, result.Node)
	}
	// Another error is a PostFilter plugin's, and no pod was evicted: the scheduler logs it, too.
	errs := []error{ctx.Err(), s.remove(ctx, arriving)}
	for _, victim := range victims {
		names = append(names, podText(victim))
		errs = append(errs, s.restore(ctx, victim))
	}
	found = slices.DeleteFunc(found, func(node string) bool { return node == "" })
	if err == nil && len(found) >= needed {
		nodes = sets.List(sets.New(found...))
	}
	return nodes, names, errors.Join(errs...)
}

// evictNone says why no pod is evicted for the pod, if that could have been of use.
func (x *Explanation) evictNone(s *situation, pod *corev1.Pod, gang bool) {
	if len(x.Refusals) > 0 || !slices.ContainsFunc(s.nodes, func(n nodeFacts) bool {
		return !slices.ContainsFunc(n.verdicts, func(v engine.Verdict) bool { return !v.Resolvable })
	}) {
		return
	}
	whose := "this pod's"
	if gang {
		whose = "the gang's"
	}
	x.Preemption = &Preemption{Text: fmt.Sprintf("no pod is evicted: no pods of lower priority than %s would make room", whose)}
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		x.Preemption.Text = "no pod is evicted: spec.preemptionPolicy of the pod is Never"
	}
}

// feasible adds the nodes that can take the first pod.
func (x *Explanation) feasible(result *engine.Result) {
	if result.Node == "" {
		return
	}
	for _, node := range result.Scores {
		f := Feasible{Node: node.Name, Total: node.TotalScore}
		for _, score := range node.Scores {
			f.Scores = append(f.Scores, Score{Plugin: score.Name, Score: score.Score})
		}
		x.Feasible = append(x.Feasible, f)
	}
	slices.SortStableFunc(x.Feasible, func(a, b Feasible) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Node, b.Node))
	})
	if len(x.Feasible) == 0 {
		x.Feasible = []Feasible{{Node: result.Node}}
	}
}

// rechoose says whether a bound pod would get the same node now.
func (x *Explanation) rechoose(ctx context.Context, s *situation) error {
	x.State = Bound
	if !s.engine.Handles(s.pod) {
		x.Answer = fmt.Sprintf("Pod %s is on node %s.", x.Pod, x.Node)
		return nil
	}
	s.readDevices()
	x.Approximate = approximate(s)
	pod := unbound(s.pod)
	s.pods, s.needed = []*corev1.Pod{pod}, 1
	pods := s.arriving(nil)
	_, result, _, err := s.place(ctx, pods)
	if err != nil {
		return errors.Join(err, s.remove(ctx, pods))
	}
	x.feasible(&result)
	x.Answer = sameChoice(x, &result)
	return s.remove(ctx, pods)
}

// approximate says why the running scheduler may choose another node than the engine.
func approximate(s *situation) string {
	args, ok := argsOf[*config.GPUDeviceArgs](s.in, s.pod.Spec.SchedulerName)
	if !ok || !s.runs(gpudevice.Name) || len(args.ExpectedWorkload) > 0 || args.ScoringStrategy.Type != config.GPUDeviceFragmentationGradient {
		return ""
	}
	return "GPUDevice learns its expected workload at run time: the running scheduler may prefer another feasible node"
}

// notServed proposes the names that some scheduler handles.
func (x *Explanation) notServed(ctx context.Context, s *situation) error {
	x.State = NotServed
	if x.Scheduler.Known {
		x.State = Unknown
	}
	var err error
	trials := leastTrials
	if x.Changes, err = s.tryEach(ctx, s.proposed(proposeSchedulerName), &trials); err != nil {
		return err
	}
	x.Answer = notServedAnswer(x, s.pod)
	return nil
}

// keysOf returns the labels and annotations of the pod that have no effect.
func keysOf(s *situation, gangs bool) []string {
	effective, served := s.engine.Profiles()[s.in.Pods[0].Spec.SchedulerName]
	return unknownkeys.Findings(registry.PodKeys(), s.in.Pods[0], &unknownkeys.Profile{
		Name: s.in.Pods[0].Spec.SchedulerName,
		Runs: func(plugin string) bool {
			return !served || registry.RunsIn(effective, plugin) || gangs && plugin == registry.GangPlugin
		},
	})
}

// unbound returns the pod as it was before it got its node.
func unbound(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = ""
	for key := range pod.Annotations {
		if strings.HasPrefix(key, gpuRecordPrefix) || key == gpuRecord {
			delete(pod.Annotations, key)
		}
	}
	return pod
}
