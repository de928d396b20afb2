// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// What the Binding writes.
const (
	gpuRecord       = names.GPUAssignedAnnotation
	gpuRecordPrefix = names.GPUDevicesAnnotationPrefix
)

// controllerOf names what controls the pod, "" if nothing does.
func controllerOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	if hash := pod.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		return "Deployment " + strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return owner.Kind + " " + owner.Name
}

// messageOf returns what a scheduler wrote into the condition of a pod without a node.
func messageOf(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// knownGates are scheduling gates with what removes them.
var knownGates = map[string]string{
	"kueue.x-k8s.io/admission": "Kueue removes it when the queue has quota for the pod: kubectl get workloads",
	"kueue.x-k8s.io/topology":  "Kueue removes it when it has assigned a topology: kubectl get workloads",
	"pod-group-admission":      "the controller of the pod group removes it",
}

// queueLabel is the label by which Kueue knows a pod's queue.
const queueLabel = "kueue.x-k8s.io/queue-name"

// gatesOf names the scheduling gates of the pod and who removes them.
func gatesOf(pod *corev1.Pod) []string {
	var gates []string
	for _, gate := range pod.Spec.SchedulingGates {
		who, ok := knownGates[gate.Name]
		if !ok {
			who = "whoever set it must remove it; no scheduler does"
		}
		if queue := pod.Labels[queueLabel]; queue != "" && strings.HasPrefix(gate.Name, "kueue") {
			who += fmt.Sprintf(" (queue %s, label %s)", queue, queueLabel)
		}
		gates = append(gates, gate.Name+": "+who)
	}
	return gates
}

// gatedText says what a gate does, and who removes it.
func gatedText(gate string) string {
	name, who, _ := strings.Cut(gate, ": ")
	return fmt.Sprintf("scheduling gate %s keeps it out of the queue: %s", name, who)
}

// conclude sets the state and the answer.
func (x *Explanation) conclude(s *situation, node string, enough bool) {
	who := "Pod " + x.Pod
	if s.in.Of != "" {
		who = s.in.Of
	}
	gated := ""
	if len(x.Gates) > 0 {
		x.State = Gated
		gated = who + " is Pending: " + gatedText(x.Gates[0])
		if queued := queuedBy(s.in, s.in.Pods[0]); len(queued) > 0 {
			gated += ". " + queued[0]
		}
	} else if refused := notAdmitted(s.in); len(refused) > 0 {
		x.State = NotAdmitted
		gated = fmt.Sprintf("%s cannot be created in full: %s", who, refused[0])
	}
	switch {
	case enough:
		x.Node = node
		x.conclusion(Fits, gated, who, "fits"+fitText(x, s))
	case s.gang != nil && s.gang.Members < s.gang.Needed:
		x.conclusion(Waiting, gated, who, "is Pending: "+s.gang.Text)
	case x.Preemption != nil && (x.Preemption.Node != "" || len(x.Preemption.Nodes) > 0):
		x.conclusion(Preempting, gated, who, "is Pending: "+x.Preemption.Text)
	default:
		x.conclusion(Unschedulable, gated, who, "is Pending: "+x.cause(s))
	}
	if !x.Scheduler.Alive && x.Scheduler.Lease != "" {
		x.Answer += " Its scheduler must run first: " + x.Scheduler.Text + "."
	}
}

// conclusion sets the state and the answer; for a gated pod, the gate comes first.
func (x *Explanation) conclusion(state State, gated, who, text string) {
	if gated == "" {
		x.State, x.Answer = state, who+" "+text+"."
		return
	}
	x.Answer = gated + ". Otherwise, it " + text + "."
}

// fitText says where the pods fit.
func fitText(x *Explanation, s *situation) string {
	if len(s.pods) > 1 || s.in.Of != "" && x.Pods > 1 {
		return fmt.Sprintf(": %d of %d find a node now", s.placed, len(s.pods))
	}
	if feasible := len(x.Feasible); feasible > 1 {
		return fmt.Sprintf(": %d of %d nodes can take it now, and the scheduler would choose %s", feasible, x.Nodes, x.Node)
	}
	return ": node " + x.Node + " can take it now"
}

// cause says why the pod has no node: what rejects it, or what keeps it from the nearest
// nodes.
func (x *Explanation) cause(s *situation) string {
	var text string
	switch {
	case uncounted(x, s) != "":
		text = uncounted(x, s)
	case len(x.Refusals) > 0:
		var reasons []string
		for i := range x.Refusals {
			if !slices.Contains(reasons, x.Refusals[i].Reason) { // one that several plugins find is written once
				reasons = append(reasons, x.Refusals[i].Reason)
			}
		}
		text = strings.Join(reasons, "; and ")
		if measured(s) {
			text += "; nearest: " + x.Groups[0].nearest()
		}
	case len(x.Groups) > 0 && len(x.Groups[0].Names) == 0:
		text = fmt.Sprintf("none of the %d nodes can take it: %s", x.Nodes, x.Groups[0].Text)
	case len(x.Groups) > 0 && x.Nodes == 1:
		text = x.Groups[0].nearest()
	case len(x.Groups) > 0:
		text = fmt.Sprintf("none of the %d nodes can take it; nearest: %s", x.Nodes, x.Groups[0].nearest())
	case x.Nodes == 0:
		text = "the cluster has no nodes"
	default:
		text = "no node can take it"
	}
	switch {
	case s.gang != nil:
		text = s.gang.Text + ". For the next pod, " + text
	case len(s.pods) > 1:
		text = fmt.Sprintf("%d of %d pods find a node. For the next pod, %s", s.placed, len(s.pods), text)
	}
	return text
}

// measured reports whether a plugin that rejects the pod for all nodes says how far the
// nearest one is. What others say about the nodes then does not matter.
func measured(s *situation) bool {
	return len(s.nodes) > 0 && slices.ContainsFunc(s.nodes[0].verdicts, func(v engine.Verdict) bool { return s.refusal(v.Plugin) != "" })
}

// uncounted says that the pod's profile counts no shares, if that is what keeps it from
// the nearest nodes.
func uncounted(x *Explanation, s *situation) string {
	if s.devices || len(x.Groups) == 0 {
		return ""
	}
	for _, v := range x.Groups[0].Verdicts {
		if resource, ok := strings.CutPrefix(v.Reason, shortfall.Insufficient+names.Prefix); ok {
			resource, _, _ = strings.Cut(resource, ",")
			return pending.Uncounted(names.Prefix+resource, s.pod.Spec.SchedulerName, registry.ProfilesRunning(s.engine.Profiles(), gpudevice.Name))
		}
	}
	return ""
}

// notServedAnswer says that no scheduler handles the pod's schedulerName, or that its
// profile is unknown.
func notServedAnswer(x *Explanation, pod *corev1.Pod) string {
	if x.Scheduler.Known {
		text := fmt.Sprintf("Pod %s: %s, but its profile is unknown here: name it with --config FILE.", x.Pod, x.Scheduler.Text)
		if message := messageOf(pod); message != "" {
			text += " The scheduler reports: " + message
		}
		return text
	}
	return fmt.Sprintf("Pod %s is Pending: %s Recreate the pod: schedulerName is immutable.", x.Pod, sentence(x.Scheduler.Text))
}

// sentence ends a text.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// sameChoice compares the node that the pod has with the one that it would get now.
func sameChoice(x *Explanation, result *engine.Result) string {
	text := fmt.Sprintf("Pod %s is on node %s", x.Pod, x.Node)
	at, best := int64(-1), int64(-1)
	for _, node := range x.Feasible {
		best = max(best, node.Total)
		if node.Node == x.Node {
			at = node.Total
		}
	}
	switch {
	case result.Node == "":
		return text + ". Now no node would take it, not even this one: " + result.Message
	case result.Node == x.Node || at >= 0 && at == best:
		return text + ", and would get the same node now."
	case at < 0:
		return fmt.Sprintf("%s. Now it would go to %s instead.", text, result.Node)
	}
	return fmt.Sprintf("%s. Now it would go to %s, which scores %d against %d.", text, result.Node, best, at)
}

// unseen answers from the pod alone, where nodes or the profile could not be read.
func (x *Explanation) unseen(in *Input, pod *corev1.Pod) {
	x.State = Unknown
	if in.Objects != nil {
		x.Nodes = len(in.Objects.Nodes())
	}
	x.Gang = gangOf(in, pod)
	switch {
	case pod.Spec.NodeName != "":
		x.State, x.Answer = Bound, fmt.Sprintf("Pod %s is on node %s.", x.Pod, x.Node)
	case len(x.Gates) > 0:
		x.State, x.Answer = Gated, fmt.Sprintf("Pod %s is Pending: %s.", x.Pod, gatedText(x.Gates[0]))
	case !x.Scheduler.Known && in.ServersSeen:
		x.State, x.Answer = NotServed, fmt.Sprintf("Pod %s is Pending: %s Recreate the pod: schedulerName is immutable.", x.Pod, sentence(x.Scheduler.Text))
	case x.Gang != nil && !x.Gang.Found && in.Objects != nil:
		x.State, x.Answer = Waiting, fmt.Sprintf("Pod %s is Pending: %s.", x.Pod, x.Gang.Text)
	case x.Message != "":
		x.Answer = fmt.Sprintf("Pod %s is Pending. The scheduler reports: %s", x.Pod, x.Message)
	default:
		x.Answer = fmt.Sprintf("Pod %s is Pending, and no scheduler has reported why: %s.", x.Pod, x.Scheduler.Text)
	}
}
