// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
	"github.com/berth-scheduler/berth/pkg/registry"
)

// needs tells which kinds of objects the plugins of one profile read, for the
// profile as a whole and for single pods. A plugin that finds none where there
// are some decides wrongly and says nothing; so a kind that is read and missing
// is an error. Kinds that only sharpen a preference (the controllers from which
// PodTopologySpread derives its default selectors) are not among them.
type needs struct {
	profile string
	objects *cluster.Cluster
	enabled sets.Set[string]
}

// newNeeds returns the needs by profile, or an error that names what the profiles
// or the pending pods need and the cluster has not.
func newNeeds(c *schedconfig.KubeSchedulerConfiguration, profiles profile.Map, objects *cluster.Cluster) (map[string]*needs, error) {
	all := map[string]*needs{}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		n := &needs{profile: p.SchedulerName, objects: objects, enabled: sets.New[string]()}
		for _, plugin := range registry.Running(profiles[p.SchedulerName].ListPlugins()) {
			n.enabled.Insert(plugin)
		}
		if err := n.checkArgs(p.PluginConfig); err != nil {
			return nil, err
		}
		all[p.SchedulerName] = n
	}
	return all, nil
}

// require returns an error if the plugin is enabled and the resource missing.
func (n *needs) require(plugin, resource, why string) error {
	if !n.enabled.Has(plugin) || n.objects.Has(resource) {
		return nil
	}
	return fmt.Errorf("profile %q: plugin %s needs %s, because %s; the input has none: add the output of \"kubectl get %s -A -o yaml\"",
		n.profile, plugin, resource, why, resource)
}

// checkArgs looks at what arguments make a plugin read.
func (n *needs) checkArgs(entries []schedconfig.PluginConfig) error {
	for i := range entries {
		switch args := entries[i].Args.(type) {
		case *config.LabelPresenceArgs:
			if args.Tenancy != nil {
				if err := n.require(entries[i].Name, "namespaces", "tenancy reads a label of the pod's namespace"); err != nil {
					return err
				}
			}
			for r := range args.Rules {
				if isSelective(args.Rules[r].NamespaceSelector) {
					if err := n.require(entries[i].Name, "namespaces", fmt.Sprintf("rules[%d] has a namespaceSelector", r)); err != nil {
						return err
					}
				}
			}
		case *config.ColocationArgs:
			if err := n.checkColocation(entries[i].Name, args); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *needs) checkColocation(plugin string, args *config.ColocationArgs) error {
	for r := range args.Rules {
		if len(args.Rules[r].Services) > 0 {
			if err := n.require(plugin, "services", fmt.Sprintf("rules[%d] names some", r)); err != nil {
				return err
			}
		}
		if isSelective(args.Rules[r].NamespaceSelector) {
			if err := n.require(plugin, "namespaces", fmt.Sprintf("rules[%d] has a namespaceSelector", r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSelective reports whether the selector depends on the labels of a
// namespace.
func isSelective(selector *metav1.LabelSelector) bool {
	return selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0
}

// checkPod looks at what a pod makes plugins read.
func (n *needs) checkPod(pod *corev1.Pod) error {
	who := "pod " + klog.KObj(pod).String()
	if _, ok := pod.Annotations[names.ColocateWithAnnotation]; ok {
		if err := n.require("Colocation", "services", who+" has the annotation "+names.ColocateWithAnnotation); err != nil {
			return err
		}
	}
	if hasNamespaceSelector(pod) {
		if err := n.require(pluginnames.InterPodAffinity, "namespaces", who+" has a namespaceSelector in its affinity"); err != nil {
			return err
		}
	}
	if hasClaims(pod) {
		for _, resource := range []string{"persistentvolumeclaims", "storageclasses"} {
			if resource == "storageclasses" && n.objects.Has("persistentvolumes") {
				continue // the claims are bound to volumes that are there
			}
			if err := n.require(pluginnames.VolumeBinding, resource, who+" has volumes with claims"); err != nil {
				return err
			}
		}
	}
	return n.checkClaims(pod, who)
}

// checkClaims looks at what the pod's claims make the plugin read that allocates them. Claims that are made
// from templates need not be there; without those of bound pods, devices would seem free.
func (n *needs) checkClaims(pod *corev1.Pod, who string) error {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	required := []string{"deviceclasses", "resourceslices"}
	named := func(claim corev1.PodResourceClaim) bool { return claim.ResourceClaimName != nil }
	if slices.ContainsFunc(pod.Spec.ResourceClaims, named) || slices.ContainsFunc(n.objects.Bound(), func(bound *corev1.Pod) bool { return len(bound.Spec.ResourceClaims) > 0 }) {
		required = append(required, "resourceclaims")
	}
	if len(cluster.ClaimsOf(pod)) < len(pod.Spec.ResourceClaims) {
		required = append(required, "resourceclaimtemplates")
	}
	for _, resource := range required {
		for _, plugin := range []string{pluginnames.DynamicResources, deviceclaims.Name} {
			if err := n.require(plugin, resource, who+" has spec.resourceClaims"); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasClaims reports whether the pod mounts a PersistentVolumeClaim.
func hasClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil || pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// hasNamespaceSelector reports whether a term of the pod's affinity to other pods
// selects namespaces by their labels.
func hasNamespaceSelector(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	affinity := ptr.Deref(pod.Spec.Affinity.PodAffinity, corev1.PodAffinity{})
	anti := ptr.Deref(pod.Spec.Affinity.PodAntiAffinity, corev1.PodAntiAffinity{})
	terms := slices.Concat(affinity.RequiredDuringSchedulingIgnoredDuringExecution, anti.RequiredDuringSchedulingIgnoredDuringExecution)
	for _, weighted := range slices.Concat(affinity.PreferredDuringSchedulingIgnoredDuringExecution, anti.PreferredDuringSchedulingIgnoredDuringExecution) {
		terms = append(terms, weighted.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool { return isSelective(term.NamespaceSelector) })
}
