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
	// Refused says for what an API server refuses the pods that do not exist yet, quotas
	// apart.
	Refused []string
	// Objects are those of the cluster; nil if they could not be read, and then only
	// what stands in the pod is told.
	Objects *cluster.Cluster
	// Incomplete is whether Objects are so few that no scheduler could decide by them;
	// then only what stands in the pod is told.
	Incomplete bool
	// PodGroups are the gangs.
	PodGroups []PodGroup
	// Quotas are the ResourceQuotas, and Workloads what Kueue queues, of the pods'
	// namespaces.
	Quotas    []*corev1.ResourceQuota
	Workloads []Workload
	// Config is the configuration of the scheduler that serves the pods, nil if it is
	// not known; Profile says where it was read.
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
	// Owners are who it stands for.
	Owners []metav1.OwnerReference
	// Inactive is whether somebody has switched it off.
	Inactive bool
	// Conditions are what Kueue says of it.
	Conditions []metav1.Condition
}
