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
func proposeSchedulerName(s *situation, add func(*Change)) {
	own, served := s.engine.Profiles()[s.pod.Spec.SchedulerName]
	shares := s.request != nil && s.request.Kind == device.RequestShares
	if served && (!shares || registry.RunsIn(own, gpudevice.Name)) {
		return
	}
	for i := range s.in.Config.Profiles {
		name := s.in.Config.Profiles[i].SchedulerName
		if name == s.pod.Spec.SchedulerName {
			continue
		}
		change := podChange("schedulerName", 4, func(pod *corev1.Pod) { pod.Spec.SchedulerName = name }, "set spec.schedulerName to %q", name)
		if d := messages.Distance(strings.ToLower(s.pod.Spec.SchedulerName), strings.ToLower(name), messages.Typo); d <= messages.Typo {
			change.cost = 0.5 + 0.1*float64(d)
		}
		if shares && registry.RunsIn(s.engine.Profiles()[name], gpudevice.Name) {
			change.cost = min(change.cost, 1)
			change.Text += ", whose profile runs GPUDevice"
		}
		add(change)
	}
}

// proposeTolerations proposes to tolerate all the taints of a node.
func proposeTolerations(s *situation, add func(*Change)) {
	seen := map[string]bool{}
	for _, n := range s.near() {
		taints := shortfall.UntoleratedTaints(s.pod, n.node())
		if len(taints) == 0 || slices.ContainsFunc(taints, ofNodeController) {
			continue // nothing to tolerate, or the node is not well, or cordoned
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
		list := strings.Join(texts, ", ")
		if seen[list] {
			continue
		}
		seen[list] = true
		switch {
		case s.keepsForDevices(n.node()):
			cost = 7 // it is meant to keep the pod away
		case !s.ranking.Wants(n.node()):
			cost = 4.2 // it may be
		}
		add(podChange("toleration", cost+0.1*float64(len(taints)), func(pod *corev1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerations...)
		}, "if the pod is meant for nodes like %s: tolerate their taint, spec.tolerations: [%s]", n.node().Name, list))
	}
}

// ofNodeController reports whether Kubernetes' own controllers set the taint, and would again.
func ofNodeController(taint corev1.Taint) bool {
	return strings.HasPrefix(taint.Key, "node.kubernetes.io/")
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
func proposeNodeSelector(s *situation, add func(*Change)) {
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
			add(podChange("nodeSelector", cost, func(pod *corev1.Pod) { setSelector(pod, key, value) }, "in spec.nodeSelector, set %s to %q", key, value))
		}
		if len(keys) == 0 {
			continue
		}
		add(podChange("nodeSelector", 3+0.2*float64(len(keys)), func(pod *corev1.Pod) {
			maps.DeleteFunc(pod.Spec.NodeSelector, func(key, _ string) bool { return slices.Contains(keys, key) })
		}, "leave %s out of spec.nodeSelector, if the pod may run elsewhere", strings.Join(keys, " and ")))
	}
	for _, wrong := range misspelledKeys(s) {
		add(podChange("nodeSelector", 0.8, func(pod *corev1.Pod) {
			setSelector(pod, wrong[1], pod.Spec.NodeSelector[wrong[0]])
			delete(pod.Spec.NodeSelector, wrong[0])
		}, "in spec.nodeSelector, write %s instead of %s", wrong[1], wrong[0]))
	}
}

// misspelledKeys returns the keys of the nodeSelector that no node has, each with a similar one.
func misspelledKeys(s *situation) [][2]string {
	there := s.labelKeys()
	var wrong [][2]string
	for key := range s.pod.Spec.NodeSelector {
		if there.Has(key) {
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

// setSelector sets one key of the nodeSelector.
func setSelector(pod *corev1.Pod, key, value string) {
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector[key] = value
}

// proposeNodeAffinity proposes to leave out a requirement, or all.
func proposeNodeAffinity(s *situation, add func(*Change)) {
	terms := required(s.pod)
	if terms == nil {
		return
	}
	for i, term := range terms.NodeSelectorTerms {
		for j, r := range term.MatchExpressions {
			if len(terms.NodeSelectorTerms) > 1 || len(term.MatchExpressions)+len(term.MatchFields) < 2 {
				continue
			}
			add(podChange("nodeAffinity", 3.4, func(pod *corev1.Pod) {
				term := &required(pod).NodeSelectorTerms[i]
				term.MatchExpressions = slices.Delete(term.MatchExpressions, j, j+1)
			}, "leave %s %s %s out of the required nodeAffinity, if the pod may run elsewhere", r.Key, r.Operator, strings.Join(r.Values, ",")))
		}
	}
	add(podChange("nodeAffinity", 3.6, func(pod *corev1.Pod) {
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}, "leave the required nodeAffinity out, if the pod may run elsewhere (or make it preferred)"))
}

// proposePodAffinity proposes to prefer what a term requires.
func proposePodAffinity(s *situation, add func(*Change)) {
	for _, kind := range []string{"podAffinity", "podAntiAffinity"} {
		terms, _ := podTerms(s.pod, kind)
		for i, term := range *terms {
			add(podChange(kind, 3.5, func(pod *corev1.Pod) {
				required, preferred := podTerms(pod, kind)
				*required = slices.Delete(*required, i, i+1)
				*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: term})
			}, "make the required %s (%s, in the same %s) preferred", kind, metav1.FormatLabelSelector(term.LabelSelector), term.TopologyKey))
		}
	}
}

// podTerms returns the required and the preferred terms of one kind; none if the pod has no
// such affinity.
func podTerms(pod *corev1.Pod, kind string) (required *[]corev1.PodAffinityTerm, preferred *[]corev1.WeightedPodAffinityTerm) {
	switch affinity := pod.Spec.Affinity; {
	case affinity == nil:
	case kind == "podAffinity" && affinity.PodAffinity != nil:
		return &affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	case kind == "podAntiAffinity" && affinity.PodAntiAffinity != nil:
		return &affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, &affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return &[]corev1.PodAffinityTerm{}, nil
}

// proposeSpread proposes to relax a topology spread constraint.
func proposeSpread(s *situation, add func(*Change)) {
	for i, constraint := range s.pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		add(podChange("topologySpread", 3.2, func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints[i].MaxSkew++
		}, "in spec.topologySpreadConstraints[%d] (%s), raise maxSkew to %d", i, constraint.TopologyKey, constraint.MaxSkew+1))
		add(podChange("topologySpread", 3.3, func(pod *corev1.Pod) {
			c := &pod.Spec.TopologySpreadConstraints[i]
			c.WhenUnsatisfiable, c.MinDomains = corev1.ScheduleAnyway, nil
		}, "in spec.topologySpreadConstraints[%d] (%s), set whenUnsatisfiable to ScheduleAnyway", i, constraint.TopologyKey))
	}
}

// proposePorts proposes to use no host port.
func proposePorts(s *situation, add func(*Change)) {
	if len(schedutil.GetHostPorts(s.pod)) == 0 || s.pod.Spec.HostNetwork {
		return
	}
	add(podChange("hostPort", 3.1, func(pod *corev1.Pod) {
		for i := range pod.Spec.Containers {
			for j := range pod.Spec.Containers[i].Ports {
				port := &pod.Spec.Containers[i].Ports[j]
				port.HostPort, port.HostIP = 0, ""
			}
		}
	}, "leave hostPort out of the containers' ports: a Service reaches them without"))
}

// proposeClaims proposes existing claims in place of misspelled ones.
func proposeClaims(s *situation, add func(*Change)) {
	there := namesOf[*corev1.PersistentVolumeClaim](s)
	for i := range s.pod.Spec.Volumes {
		claim := s.pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil || slices.Contains(there, claim.ClaimName) {
			continue
		}
		if meant := messages.Nearest(claim.ClaimName, there); meant != "" {
			add(podChange("claim", 1, func(pod *corev1.Pod) {
				if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil { // nil of another member
					claim.ClaimName = meant
				}
			}, "in spec.volumes[%d], write claimName: %s, which exists; %s does not", i, meant, claim.ClaimName))
		}
	}
}

// podText names a pod.
func podText(pod *corev1.Pod) string { return klog.KObj(pod).String() }
