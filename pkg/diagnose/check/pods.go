// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
)

// checkPods finds pods whose scheduler is not running, and pods that ask for what their
// profile does not run.
func (c *checker) checkPods() {
	profiles := map[string]*unknownkeys.Profile{
		// The cluster's own scheduler has none of Berth's plugins.
		corev1.DefaultSchedulerName: {Name: corev1.DefaultSchedulerName, Runs: func(string) bool { return false }},
	}
	if c.berthServesDefault() {
		delete(profiles, corev1.DefaultSchedulerName) // a process whose profile is not known
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
		// Of a name that no profile here has, it is not known what serves it.
		if (c.schedulersSeen || c.options.Profile != nil) && profiles[pod.Spec.SchedulerName] != nil && waits(pod) {
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

// waits reports whether a pod needs a scheduler.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podutil.IsPodTerminal(pod)
}

// stockLease is that of the cluster's own scheduler.
const stockLease = metav1.NamespaceSystem + "/kube-scheduler"

// berthServesDefault reports whether whoever holds the lease of the cluster's own scheduler
// says whom it serves, as Berth does and kube-scheduler does not.
func (c *checker) berthServesDefault() bool {
	leases, _ := c.listLeases()
	return slices.ContainsFunc(leases, func(l coordinationv1.Lease) bool {
		return l.Namespace+"/"+l.Name == stockLease && len(lease.Serves(ptr.Deref(l.Spec.HolderIdentity, ""))) > 0
	})
}

// servedNames are the schedulerNames that are served: by a scheduler that was found, one
// that holds a lease, or one that has taken a pod of that name and whose own pod runs. It
// is nil if leases could not be seen. The cluster's own scheduler counts unless its lease shows
// that it is gone: not every cluster shows that lease.
func (c *checker) servedNames(ours []string) map[string]bool {
	leases, seen := c.listLeases()
	if !seen {
		return nil
	}
	served := map[string]bool{corev1.DefaultSchedulerName: true}
	for i := range leases {
		if leases[i].Namespace+"/"+leases[i].Name == stockLease {
			served[corev1.DefaultSchedulerName] = c.isLive(&leases[i])
		}
	}
	for i := range leases {
		l := &leases[i]
		if !c.isLive(l) {
			continue
		}
		if len(lease.Serves(ptr.Deref(l.Spec.HolderIdentity, ""))) == 0 {
			served[l.Name] = true // a scheduler need not be called one
		}
		for _, name := range lease.ServedBy(l) {
			served[name] = true
		}
	}
	for _, name := range ours {
		served[name] = true
	}
	taken := map[string]bool{}
	for _, pod := range c.objects.Pods() {
		if name := pod.Spec.SchedulerName; pending.WasTaken(pod) && !served[name] {
			taken[name] = true
		}
	}
	for name := range taken {
		served[name] = slices.ContainsFunc(c.objects.Pods(), func(pod *corev1.Pod) bool { return runsSchedulerOf(pod, name) })
	}
	return served
}

// runsSchedulerOf reports whether a pod seems to be another scheduler, which serves the name:
// it is called after it, or is told it in an argument. Which names a Berth serves its profile
// says, or its lease.
func runsSchedulerOf(pod *corev1.Pod, name string) bool {
	if pod.Spec.NodeName == "" || podutil.IsPodTerminal(pod) || schedulerContainer(pod.Labels, &pod.Spec) != nil {
		return false
	}
	if pod.Name == name || strings.HasPrefix(pod.Name, name+"-") {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(slices.Concat(container.Command, container.Args), func(argument string) bool {
			return argument == name || strings.HasSuffix(argument, "="+name)
		})
	})
}

// unknownName is about a pod whose schedulerName no scheduler seems to serve.
func (c *checker) unknownName(pod *corev1.Pod, ours []string) *Finding {
	if len(pod.Spec.SchedulingGates) > 0 || !waits(pod) {
		return nil
	}
	name, others := pod.Spec.SchedulerName, strings.Join(append([]string{corev1.DefaultSchedulerName}, ours...), ", ")
	f := &Finding{
		Severity: Warning, Field: "spec.schedulerName",
		Message: fmt.Sprintf("no known scheduler serves %q, so the pod stays Pending", name), WayOut: "name a scheduler that runs: there are " + others,
	}
	if pending.WasTried(pod) {
		f.Message = fmt.Sprintf("the scheduler that served %q is gone: no live lease, Deployment or pod serves it, so the pod stays Pending", name)
		f.WayOut = "start a scheduler with a profile of this name, or recreate the pod with another schedulerName: " + others
	} else if meant := pending.MeantSchedulerName(name, slices.Values(ours)); meant != "" {
		f.WayOut = fmt.Sprintf("did you mean %s? Then recreate the pod: schedulerName is immutable", meant)
	}
	return f
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
