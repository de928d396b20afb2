// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
)

// proposeSchedulerName proposes the other profiles of the same configuration for a pod whose
// own does not account for what it asks for, and for one whose name no scheduler handles.
// For others a different profile is no remedy: a profile is a policy.
func proposeSchedulerName(s *situation) []*Change {
	own, served := s.engine.Profiles()[s.pod.Spec.SchedulerName]
	shares := s.request != nil && s.request.Kind == device.RequestShares
	if served && (!shares || registry.RunsIn(own, gpudevice.Name)) {
		return nil
	}
	var changes []*Change
	for i := range s.in.Config.Profiles {
		name := s.in.Config.Profiles[i].SchedulerName
		if name == s.pod.Spec.SchedulerName {
			continue
		}
		change := &Change{
			Who: OnPod, Kind: "schedulerName", Text: fmt.Sprintf("set spec.schedulerName to %q", name), cost: 4,
			pod: func(pod *corev1.Pod) { pod.Spec.SchedulerName = name },
		}
		if d := messages.Distance(strings.ToLower(s.pod.Spec.SchedulerName), strings.ToLower(name), messages.Typo); d <= messages.Typo {
			change.cost = 0.5 + 0.1*float64(d)
		}
		if shares && registry.RunsIn(s.engine.Profiles()[name], gpudevice.Name) {
			change.cost = min(change.cost, 1)
			change.Text += ", whose profile runs GPUDevice"
		}
		changes = append(changes, change)
	}
	return changes
}

// proposeTolerations proposes to tolerate all the taints of a node.
func proposeTolerations(s *situation) []*Change {
	var changes []*Change
	seen := map[string]bool{}
	for _, n := range s.near() {
		taints := shortfall.UntoleratedTaints(s.pod, n.node())
		if len(taints) == 0 {
			continue
		}
		var tolerations []corev1.Toleration
		var texts []string
		cost := 2.0
		for _, taint := range taints {
			toleration := corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
			if taint.Value == "" {
				toleration.Operator = corev1.TolerationOpExists
			}
			tolerations = append(tolerations, toleration)
			texts = append(texts, tolerationText(toleration))
		}
		if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }) {
			continue // the node is not well, or cordoned
		}
		if seen[strings.Join(texts, ", ")] {
			continue
		}
		seen[strings.Join(texts, ", ")] = true
		switch {
		case s.keepsForDevices(n.node()):
			cost = 7 // it is meant to keep the pod away
		case !s.ranking.Wants(n.node()):
			cost = 4.2 // it may be
		}
		changes = append(changes, &Change{
			Who: OnPod, Kind: "toleration", cost: cost + 0.1*float64(len(taints)),
			Text: fmt.Sprintf("if the pod is meant for nodes like %s: tolerate their taint, spec.tolerations: [%s]", n.node().Name, strings.Join(texts, ", ")),
			pod: func(pod *corev1.Pod) {
				pod.Spec.Tolerations = append(slices.Clone(pod.Spec.Tolerations), tolerations...)
			},
		})
	}
	return changes
}

// keepsForDevices reports whether the node has devices and the pod asks for none: the taint
// is then meant to keep the pod away.
func (s *situation) keepsForDevices(node *corev1.Node) bool {
	return s.request != nil && s.request.Kind == device.RequestNone && device.ParseNode(node, s.keys).Kind != device.NodeWithoutDevices
}

func tolerationText(t corev1.Toleration) string {
	if t.Operator == corev1.TolerationOpExists {
		return fmt.Sprintf("{key: %s, operator: Exists, effect: %s}", t.Key, t.Effect)
	}
	return fmt.Sprintf("{key: %s, value: %q, effect: %s}", t.Key, t.Value, t.Effect)
}

// proposeNodeSelector proposes other values, or to leave a key out.
func proposeNodeSelector(s *situation) []*Change {
	var changes []*Change
	for _, n := range s.near() {
		keys := unselected(s.pod, n.node())
		for _, key := range keys {
			value, ok := n.node().Labels[key]
			if !ok || len(keys) > 1 || key == corev1.LabelHostname {
				continue
			}
			cost := 3.0
			if d := messages.Distance(strings.ToLower(value), strings.ToLower(s.pod.Spec.NodeSelector[key]), messages.Typo); d <= messages.Typo {
				cost = 1 + 0.1*float64(d)
			}
			changes = append(changes, &Change{
				Who: OnPod, Kind: "nodeSelector", cost: cost, Text: fmt.Sprintf("in spec.nodeSelector, set %s to %q", key, value),
				pod: func(pod *corev1.Pod) { setSelector(pod, key, value, false) },
			})
		}
		if len(keys) == 0 {
			continue
		}
		changes = append(changes, &Change{
			Who: OnPod, Kind: "nodeSelector", cost: 3 + 0.2*float64(len(keys)), Text: fmt.Sprintf("leave %s out of spec.nodeSelector, if the pod may run elsewhere", strings.Join(keys, " and ")),
			pod: func(pod *corev1.Pod) {
				for _, key := range keys {
					setSelector(pod, key, "", true)
				}
			},
		})
	}
	for _, wrong := range misspeltKeys(s) {
		changes = append(changes, &Change{
			Who: OnPod, Kind: "nodeSelector", cost: 0.8, Text: fmt.Sprintf("in spec.nodeSelector, write %s instead of %s", wrong[1], wrong[0]),
			pod: func(pod *corev1.Pod) {
				value := pod.Spec.NodeSelector[wrong[0]]
				setSelector(pod, wrong[0], "", true)
				setSelector(pod, wrong[1], value, false)
			},
		})
	}
	return changes
}

// misspeltKeys returns the keys of the nodeSelector that no node has, each with a similar one.
func misspeltKeys(s *situation) [][2]string {
	there := map[string]bool{}
	for i := range s.nodes {
		for key := range s.nodes[i].node().Labels {
			there[key] = true
		}
	}
	var wrong [][2]string
	for key := range s.pod.Spec.NodeSelector {
		if there[key] {
			continue
		}
		for other := range there {
			if messages.Distance(key, other, messages.Typo) <= messages.Typo {
				wrong = append(wrong, [2]string{key, other})
			}
		}
	}
	slices.SortFunc(wrong, func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	return wrong
}

// setSelector changes one key of the nodeSelector.
func setSelector(pod *corev1.Pod, key, value string, remove bool) {
	selector := map[string]string{}
	maps.Copy(selector, pod.Spec.NodeSelector)
	selector[key] = value
	if remove {
		delete(selector, key)
	}
	pod.Spec.NodeSelector = selector
}

// proposeNodeAffinity proposes to leave out a requirement, or all.
func proposeNodeAffinity(s *situation) []*Change {
	terms := required(s.pod)
	if terms == nil {
		return nil
	}
	var changes []*Change
	drop := func(text string, cost float64, change func(*corev1.NodeAffinity)) {
		changes = append(changes, &Change{Who: OnPod, Kind: "nodeAffinity", Text: text, cost: cost, pod: func(pod *corev1.Pod) {
			pod.Spec.Affinity = pod.Spec.Affinity.DeepCopy()
			change(pod.Spec.Affinity.NodeAffinity)
		}})
	}
	for i, term := range terms.NodeSelectorTerms {
		for j, r := range term.MatchExpressions {
			if len(terms.NodeSelectorTerms) > 1 || len(term.MatchExpressions)+len(term.MatchFields) < 2 {
				continue
			}
			drop(fmt.Sprintf("leave %s %s %s out of the required nodeAffinity, if the pod may run elsewhere", r.Key, r.Operator, strings.Join(r.Values, ",")), 3.4, func(a *corev1.NodeAffinity) {
				expressions := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i].MatchExpressions
				a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i].MatchExpressions = slices.Delete(expressions, j, j+1)
			})
		}
	}
	drop("leave the required nodeAffinity out, if the pod may run elsewhere (or make it preferred)", 3.6, func(a *corev1.NodeAffinity) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = nil
	})
	return changes
}

// proposePodAffinity proposes to prefer what a term requires.
func proposePodAffinity(s *situation) []*Change {
	if s.pod.Spec.Affinity == nil {
		return nil
	}
	var changes []*Change
	add := func(kind string, term corev1.PodAffinityTerm, change func(*corev1.Affinity)) {
		text := fmt.Sprintf("make the required %s (%s, in the same %s) preferred", kind, metav1.FormatLabelSelector(term.LabelSelector), term.TopologyKey)
		changes = append(changes, &Change{Who: OnPod, Kind: kind, Text: text, cost: 3.5, pod: func(pod *corev1.Pod) {
			pod.Spec.Affinity = pod.Spec.Affinity.DeepCopy()
			change(pod.Spec.Affinity)
		}})
	}
	prefer := func(terms *[]corev1.PodAffinityTerm, preferred *[]corev1.WeightedPodAffinityTerm, i int) {
		*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: (*terms)[i]})
		*terms = slices.Delete(*terms, i, i+1)
	}
	if affinity := s.pod.Spec.Affinity.PodAffinity; affinity != nil {
		for i, term := range affinity.RequiredDuringSchedulingIgnoredDuringExecution {
			add("podAffinity", term, func(a *corev1.Affinity) {
				prefer(&a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, i)
			})
		}
	}
	if anti := s.pod.Spec.Affinity.PodAntiAffinity; anti != nil {
		for i, term := range anti.RequiredDuringSchedulingIgnoredDuringExecution {
			add("podAntiAffinity", term, func(a *corev1.Affinity) {
				prefer(&a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, i)
			})
		}
	}
	return changes
}

// proposeSpread proposes to relax a topology spread constraint.
func proposeSpread(s *situation) []*Change {
	var changes []*Change
	for i, constraint := range s.pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		edit := func(change func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.TopologySpreadConstraints = slices.Clone(pod.Spec.TopologySpreadConstraints)
				change(&pod.Spec.TopologySpreadConstraints[i])
			}
		}
		changes = append(changes, &Change{
			Who: OnPod, Kind: "topologySpread", cost: 3.2,
			Text: fmt.Sprintf("in spec.topologySpreadConstraints[%d] (%s), raise maxSkew to %d", i, constraint.TopologyKey, constraint.MaxSkew+1),
			pod:  edit(func(c *corev1.TopologySpreadConstraint) { c.MaxSkew++ }),
		}, &Change{
			Who: OnPod, Kind: "topologySpread", cost: 3.3,
			Text: fmt.Sprintf("in spec.topologySpreadConstraints[%d] (%s), set whenUnsatisfiable to ScheduleAnyway", i, constraint.TopologyKey),
			pod: edit(func(c *corev1.TopologySpreadConstraint) {
				c.WhenUnsatisfiable, c.MinDomains = corev1.ScheduleAnyway, nil
			}),
		})
	}
	return changes
}

// proposePorts proposes to use no host port.
func proposePorts(s *situation) []*Change {
	if len(schedutil.GetHostPorts(s.pod)) == 0 || s.pod.Spec.HostNetwork {
		return nil
	}
	return []*Change{{
		Who: OnPod, Kind: "hostPort", cost: 3.1,
		Text: "leave hostPort out of the containers' ports: a Service reaches them without",
		pod: func(pod *corev1.Pod) {
			for i := range pod.Spec.Containers {
				ports := slices.Clone(pod.Spec.Containers[i].Ports)
				for j := range ports {
					ports[j].HostPort, ports[j].HostIP = 0, ""
				}
				pod.Spec.Containers[i].Ports = ports
			}
		},
	}}
}

// proposeClaims proposes existing claims in place of misspelt ones.
func proposeClaims(s *situation) []*Change {
	var there []string
	for _, claim := range others[*corev1.PersistentVolumeClaim](s.in) {
		if claim.Namespace == s.pod.Namespace {
			there = append(there, claim.Name)
		}
	}
	var changes []*Change
	for i := range s.pod.Spec.Volumes {
		claim := s.pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil || slices.Contains(there, claim.ClaimName) {
			continue
		}
		meant := messages.Nearest(claim.ClaimName, there)
		if meant == "" {
			continue
		}
		changes = append(changes, &Change{
			Who: OnPod, Kind: "claim", cost: 1, Text: fmt.Sprintf("in spec.volumes[%d], write claimName: %s, which exists; %s does not", i, meant, claim.ClaimName),
			pod: func(pod *corev1.Pod) {
				if pod.Spec.Volumes[i].PersistentVolumeClaim == nil {
					return // another member's volume
				}
				pod.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
				volume := pod.Spec.Volumes[i].DeepCopy()
				volume.PersistentVolumeClaim.ClaimName = meant
				pod.Spec.Volumes[i] = *volume
			},
		})
	}
	return changes
}

// podText names a pod.
func podText(pod *corev1.Pod) string { return klog.KObj(pod).String() }
