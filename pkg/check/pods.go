// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/lease"
	"github.com/berth-scheduler/berth/pkg/pending"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/unknownkeys"
)

// checkPods finds pods whose scheduler nobody runs, and what pods ask of a profile that
// does not have it.
func (c *checker) checkPods() {
	profiles := map[string]*unknownkeys.Profile{
		// The cluster's own scheduler has none of Berth's plugins.
		corev1.DefaultSchedulerName: {Name: corev1.DefaultSchedulerName, Runs: func(string) bool { return false }},
	}
	var ours, sharing []string
	for _, s := range c.schedulers {
		sharing = append(sharing, registry.ProfilesRunning(s.profile.Effective, gpudevice.Name)...)
		for name, running := range s.profile.Effective {
			ours = append(ours, name)
			profiles[name] = &unknownkeys.Profile{Name: name, Runs: func(plugin string) bool { return registry.RunsIn(running, plugin) }}
		}
	}
	slices.Sort(ours)
	served, keys, by := c.servedNames(ours), registry.PodKeys(), c.installation()
	otherwise := "remove the key, or name a profile that reads it in spec.schedulerName"
	if by != (installation{}) {
		otherwise += ", or " + by.upgrade("the feature (features)")
	}
	for _, pod := range c.objects.Pods() {
		if served != nil && !served[pod.Spec.SchedulerName] {
			c.foundPod(pod, c.unknownName(pod, ours))
		}
		if c.schedulersSeen || c.options.Profile != nil {
			c.foundPod(pod, sharesWithout(pod, sharing, by))
		}
		if profile := profiles[pod.Spec.SchedulerName]; profile != nil && len(pod.Labels)+len(pod.Annotations) > 0 {
			for _, text := range unknownkeys.Findings(keys, pod, profile) {
				message, wayOut := splitWayOut(text, otherwise)
				c.foundPod(pod, &Finding{Severity: Warning, Field: "metadata", Message: message, WayOut: wayOut})
			}
		}
	}
}

// foundPod adds a finding about a pod, of pods with one controller the first alone.
func (c *checker) foundPod(pod *corev1.Pod, f *Finding) {
	if f == nil {
		return
	}
	f.Object = fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		f.Object = fmt.Sprintf("%s %s/%s (its pods)", owner.Kind, pod.Namespace, owner.Name)
	}
	c.found(*f) // repetitions go when the report is sorted
}

// servedNames are the schedulerNames that somebody serves: a scheduler that was found, one
// that holds a lease and says so in it, or one that has taken a pod of that name. It is
// nil if leases could not be seen.
func (c *checker) servedNames(ours []string) map[string]bool {
	served := map[string]bool{corev1.DefaultSchedulerName: true}
	for _, name := range ours {
		served[name] = true
	}
	for _, pod := range c.objects.Pods() {
		if pending.WasTaken(pod) {
			served[pod.Spec.SchedulerName] = true
		}
	}
	list, err := c.client.CoordinationV1().Leases(metav1.NamespaceAll).List(c.ctx, metav1.ListOptions{FieldSelector: "metadata.namespace!=" + corev1.NamespaceNodeLease})
	if !c.seen("leases, and so who else serves schedulerNames", err) {
		return nil
	}
	for i := range list.Items {
		for _, name := range lease.ServedBy(&list.Items[i]) {
			served[name] = true
		}
		served[list.Items[i].Name] = true // a scheduler need not be called one
	}
	return served
}

// unknownName is about a pod whose schedulerName nobody seems to serve.
func (c *checker) unknownName(pod *corev1.Pod, ours []string) *Finding {
	if len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil {
		return nil
	}
	wayOut := "name a scheduler that runs: there are " + strings.Join(append([]string{corev1.DefaultSchedulerName}, ours...), ", ")
	if meant := pending.MeantSchedulerName(pod.Spec.SchedulerName, slices.Values(ours)); meant != "" {
		wayOut = fmt.Sprintf("if %s is meant, create the pod anew, the field cannot be changed", meant)
	}
	return &Finding{
		Severity: Warning, Field: "spec.schedulerName", Message: fmt.Sprintf("no scheduler is known that serves %q, so the pod waits", pod.Spec.SchedulerName), WayOut: wayOut,
	}
}

// sharesWithout is about a pod that asks for a share of a device under a profile that
// gives none.
func sharesWithout(pod *corev1.Pod, sharing []string, by installation) *Finding {
	if !device.HasShareRequest(pod) || slices.Contains(sharing, pod.Spec.SchedulerName) {
		return nil
	}
	wayOut := "use " + strings.Join(slices.Compact(slices.Sorted(slices.Values(sharing))), ", ")
	if len(sharing) == 0 {
		wayOut = by.or("apply an overlay with components/gpu", by.upgrade("features.gpu=true")) + ", and use its schedulerName: no profile here runs it"
	}
	return &Finding{
		Severity: Error, Field: "spec.schedulerName",
		Message: fmt.Sprintf("%q does not run %s, which counts the limits %s and %s", pod.Spec.SchedulerName, gpudevice.Name, names.GPUMilliResource, names.GPUMemoryResource),
		WayOut:  wayOut,
	}
}
