// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// beside reports whether a pod is not asked about: it is pending in a cluster to which
// manifests are applied.
func (in *input) beside(pod *corev1.Pod) bool { return in.manifests && !cluster.IsWritten(pod) }

// asked are the pending pods that are asked about.
func (in *input) asked() []*corev1.Pod {
	return slices.DeleteFunc(in.cluster.Pending(), in.beside)
}

// checkSchedulerName checks that the pods name the profiles of a file, where that
// decides which profile schedules them, and notes that they do not where it does not.
func (s *Simulation) checkSchedulerName(p *profile) error {
	const option = "--scheduler-name"
	has := commaSeparated(p.schedulerNames())
	if s.input.fromTrace() {
		if p.schedulerName == "" {
			return optionErrorf(option, "%s has several profiles, and the pods of a trace name none: choose one of %s", p.file.Path, has)
		}
		return nil
	}
	var others []*corev1.Pod
	pending := s.input.cluster.Pending()
	for _, pod := range pending {
		if !slices.Contains(p.schedulerNames(), pod.Spec.SchedulerName) {
			others = append(others, pod)
		}
	}
	if len(others) == 0 {
		return nil
	}
	counted := fmt.Sprintf("%d of %s", len(others), output.Count(len(pending), "pending pod"))
	example := fmt.Sprintf("%s has %q", nameOf(others[0]), others[0].Spec.SchedulerName)
	switch {
	case p.schedulerName != "":
		s.report.Notes = append(s.report.Notes, fmt.Sprintf("%s: %s: spec.schedulerName is not %s, and is treated as if it were: %s", p.file.Path, counted, p.schedulerName, example))
	case len(others) == len(pending):
		return optionErrorf(option, "no pending pod names a profile of %s: choose the one for all of them, of %s", p.file.Path, has)
	default:
		s.report.Notes = append(s.report.Notes, fmt.Sprintf("%s: %s: spec.schedulerName is not one of %s, so these pods are not placed: %s", p.file.Path, counted, has, example))
	}
	return nil
}

// recordUnserved records the pods of manifests that no profile of the file places.
func (s *Simulation) recordUnserved(p *profile, sim *engine.Engine, recorder *report.Recorder) error {
	if s.input.fromTrace() || !s.input.manifests {
		return nil
	}
	for _, pod := range s.input.asked() {
		if sim.Handles(pod) {
			continue
		}
		message := fmt.Sprintf("spec.schedulerName: %q is not a profile of %s: %s", pod.Spec.SchedulerName, p.file.Path, commaSeparated(p.schedulerNames()))
		if err := recorder.Record(report.Event{Pod: pod, Message: message}); err != nil {
			return err
		}
	}
	return nil
}

// keysWithoutEffect are the warnings about labels and annotations of the pods that are
// asked about, as the scheduler gives them in the cluster; of a workload's pods once.
func (s *Simulation) keysWithoutEffect(p *profile, sim *engine.Engine) []string {
	if s.input.fromTrace() {
		return nil
	}
	keys, effective := registry.PodKeys(), sim.Profiles()
	var warnings []string
	for _, pod := range s.input.asked() {
		name := pod.Spec.SchedulerName
		if p.schedulerName != "" {
			name = p.schedulerName
		}
		running, served := effective[name]
		if !served || len(pod.Labels)+len(pod.Annotations) == 0 {
			continue
		}
		for _, text := range unknownkeys.Findings(keys, pod, &unknownkeys.Profile{
			Name: name, Runs: func(plugin string) bool { return registry.RunsIn(running, plugin) },
		}) {
			warnings = append(warnings, nameOf(pod)+": metadata: "+text)
		}
	}
	slices.Sort(warnings)
	return slices.Compact(warnings)
}

// nameOf returns "Deployment default/web" for a pod of that workload, and "Pod default/p"
// for one without an owner.
func nameOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind + " " + pod.Namespace + "/" + owner.Name
	}
	return "Pod " + pod.Namespace + "/" + pod.Name
}
