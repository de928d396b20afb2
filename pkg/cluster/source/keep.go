// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// keep takes the objects that no plugin reads and that say who schedules, and in gangs
// of how many.
func (f *found) keep(kind schema.GroupVersionKind, object []byte) (bool, error) {
	switch kind.GroupKind() {
	case schema.GroupKind{Group: coschedulingGroup, Kind: "PodGroup"}, schema.GroupKind{Group: schedulingv1.GroupName, Kind: "PodGroup"}:
		group, err := podGroupOf(object, f.namespace, kind.Group == schedulingv1.GroupName)
		f.in.PodGroups = append(f.in.PodGroups, group)
		return true, err
	case schema.GroupKind{Group: kueueGroup, Kind: "Workload"}:
		return true, f.addWorkload(object)
	case schema.GroupKind{Kind: "ResourceQuota"}:
		q := &corev1.ResourceQuota{}
		err := json.Unmarshal(object, q)
		f.in.Quotas = append(f.in.Quotas, q)
		return true, err
	case schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}:
		l := &coordinationv1.Lease{}
		err := json.Unmarshal(object, l)
		f.addLease(l)
		return true, err
	case schema.GroupKind{Kind: "ConfigMap"}:
		m := &corev1.ConfigMap{}
		err := json.Unmarshal(object, m)
		f.addConfigMap(m)
		return true, err
	}
	return false, nil
}

// podGroupOf reads a PodGroup, of Kubernetes itself or of Coscheduling.
func podGroupOf(object []byte, namespace string, native bool) (explain.PodGroup, error) {
	var group struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			MinMember        int `json:"minMember"`
			SchedulingPolicy struct {
				Gang struct {
					MinCount int `json:"minCount"`
				} `json:"gang"`
			} `json:"schedulingPolicy"`
		} `json:"spec"`
	}
	err := json.Unmarshal(object, &group)
	needed := group.Spec.MinMember
	if native {
		needed = group.Spec.SchedulingPolicy.Gang.MinCount
	}
	return explain.PodGroup{
		Namespace: cmp.Or(group.Metadata.Namespace, namespace, corev1.NamespaceDefault), Name: group.Metadata.Name, MinMember: needed, Native: native,
	}, err
}

// addWorkload takes what Kueue queues.
func (f *found) addWorkload(object []byte) error {
	var workload struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			QueueName string `json:"queueName"`
			Active    *bool  `json:"active"`
		} `json:"spec"`
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err := json.Unmarshal(object, &workload)
	f.in.Workloads = append(f.in.Workloads, explain.Workload{
		Namespace: workload.Metadata.Namespace, Name: workload.Metadata.Name, Queue: workload.Spec.QueueName, Owners: workload.Metadata.OwnerReferences,
		Inactive: !ptr.Deref(workload.Spec.Active, true), Conditions: workload.Status.Conditions,
	})
	return err
}

// addLease takes note of who holds a lease, if that says whom it serves, or is a
// scheduler's by its name.
func (f *found) addLease(l *coordinationv1.Lease) {
	s := explain.Server{Names: lease.ServedBy(l), Lease: l.Namespace + "/" + l.Name, Holder: ptr.Deref(l.Spec.HolderIdentity, "")}
	s.Renewed, s.Duration = lease.Term(l)
	if s.Renewed.After(f.newest) {
		f.newest = s.Renewed
	}
	if len(s.Names) > 0 {
		f.in.Servers = append(f.in.Servers, s)
	}
}

// addConfigMap takes the KubeSchedulerConfigurations of a ConfigMap.
func (f *found) addConfigMap(m *corev1.ConfigMap) {
	for _, name := range slices.Sorted(maps.Keys(m.Data)) {
		var meta struct {
			Kind string `json:"kind"`
		}
		if yaml.Unmarshal([]byte(m.Data[name]), &meta) == nil && meta.Kind == "KubeSchedulerConfiguration" {
			f.addConfiguration(m, name, []byte(m.Data[name]), nil, nil)
		}
	}
}

// addConfiguration takes what a ConfigMap has under a key; names are the schedulerNames
// that its scheduler is known to serve, and flags what that is started with, if it was seen.
func (f *found) addConfiguration(m *corev1.ConfigMap, key string, content []byte, names []string, flags *settings.Flags) {
	f.configs = append(f.configs, configuration{source: "ConfigMap " + m.Namespace + "/" + m.Name + ", " + key, content: content, names: names, flags: flags})
}
