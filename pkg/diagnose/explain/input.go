// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
)

// Input is what an explanation is made from. It is not changed.
type Input struct {
	// Pods are what is explained: one pod, or the pods of a workload, which have the
	// same template. Pending ones need not be in Objects.
	Pods []*corev1.Pod
	// Of names the workload that the pods are of; empty for a pod that stands for itself.
	Of string
	// Refused says why an API server would reject the pods that do not exist yet, except for
	// quotas.
	Refused []string
	// Objects are those of the cluster; nil if they could not be read, so that only the pod
	// itself is explained.
	Objects *cluster.Cluster
	// Incomplete is whether Objects are too few for a scheduler's decision, so that only the
	// pod itself is explained.
	Incomplete bool
	// PodGroups are the gangs.
	PodGroups []PodGroup
	// Quotas are the ResourceQuotas, and Workloads what Kueue queues, of the pods'
	// namespaces.
	Quotas    []*corev1.ResourceQuota
	Workloads []Workload
	// Config is the configuration of the scheduler that handles the pods, nil if it is
	// unknown; Profile says where it was read.
	Config  *schedconfig.KubeSchedulerConfiguration
	Profile string
	// Servers are the schedulers of the cluster, as far as their leases tell.
	// ServersSeen is whether the leases could be read.
	Servers     []schedulers.Server
	ServersSeen bool
	// NotSeen is what could not be read, a line each.
	NotSeen []string
	// Now is the time by which a lease has run out or not.
	Now time.Time
	// Parallelism is how many goroutines filter and score; 0 is one.
	Parallelism int
}

// PodGroup is a gang.
type PodGroup struct {
	Namespace, Name string
	// MinMember is how many members start together at least; 0 if they need not.
	MinMember int
	// Native is whether it is one of Kubernetes' own (scheduling.k8s.io), and not of
	// Coscheduling.
	Native bool
}

// Workload is what Kueue queues: the pods of a Job, or a pod.
type Workload struct {
	Namespace, Name string
	// Queue is the LocalQueue, in the same namespace.
	Queue string
	// Owners are the objects that it stands for.
	Owners []metav1.OwnerReference
	// Inactive is whether it was deactivated.
	Inactive bool
	// Conditions are those that Kueue has set.
	Conditions []metav1.Condition
}
