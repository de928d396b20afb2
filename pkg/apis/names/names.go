// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names holds every name that Berth puts into the Kubernetes API, each
// exactly once: the domain, and the labels, annotations and resources below it,
// the namespace, and the scheduler names. A test (test/verify) finds strays
// elsewhere in the code.
package names

// Domain is the DNS domain of Berth's labels, annotations and resources.
const Domain = "berth.dev"

// prefix is what every qualified name of ours starts with.
const prefix = Domain + "/"

const (
	// Namespace is where the manifests install Berth.
	Namespace = "berth-system"
	// Scheduler is the schedulerName of the shipped profile, and the name of
	// the scheduler's ServiceAccount, Deployment and Lease.
	Scheduler = "berth-scheduler"
	// TenancySuffix is how the name of a profile ends that tenancy's admission
	// policies may trust. The scheduler refuses to serve such a name without tenancy.
	TenancySuffix = "-tenancy"
	// TenancyScheduler is the schedulerName of the shipped profile with tenancy.
	TenancyScheduler = "berth" + TenancySuffix
	// RandomScheduler is the same as Scheduler for the random binder.
	RandomScheduler = "random-scheduler"
)

const (
	// TenantLabel is the label that the shipped tenancy profile and policy read
	// on namespaces: its value is the tenant that owns the namespace. The taint on
	// the nodes of tenants has the same key.
	TenantLabel = prefix + "tenant"
	// TenantNodeLabel is the label that they read on nodes. Its prefix ends in
	// node-restriction.kubernetes.io, which the NodeRestriction admission plugin
	// forbids a kubelet to set on its own Node.
	TenantNodeLabel = Domain + ".node-restriction.kubernetes.io/tenant"
)

const (
	// LabelPresenceFragment is the key under which LabelPresence signs a pod
	// (KEP-5598). It never appears in the API.
	LabelPresenceFragment = prefix + "label-presence"
)

// Known returns every qualified name below Domain, for the test that looks for
// strays in manifests and documentation.
func Known() []string {
	return []string{
		TenantLabel, TenantNodeLabel, LabelPresenceFragment,
		GPUMilliResource, GPUMemoryResource, GPUModelAnnotation, GPUMinMemoryAnnotation, GPUAssignedAnnotation,
		GPUDevicesAnnotationPrefix, GPUFenceCondition, GPUSharingLabel, GPUPoolLabel, GPUCordonedAnnotation, GPUUUIDsAnnotation, GPUDeviceFragment,
		ColocateWithAnnotation, ColocateTopologyKeysAnnotation, ColocateRequiredTopologyKeyAnnotation, AllowColocationFromAnnotation,
		FormerColocatePreferAnnotation, FormerColocateRequireWithinAnnotation,
		BenchLabel, BenchAPIVersion,
	}
}
