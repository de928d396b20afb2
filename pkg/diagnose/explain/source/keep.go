// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
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
	}
	return f.schedulers.Keep(kind, object)
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
