// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names holds every name that Berth puts into the Kubernetes API, each
// exactly once: the domain, and the labels, annotations and resources below it,
// the namespace, and the scheduler names. A test (test/verify) finds strays
// elsewhere in the code.
package names

import "strings"

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
	// RandomScheduler is the same for the random binder.
	RandomScheduler = "random-scheduler"
)

const (
	// TenantLabel is the label that the shipped tenancy profile and policy read
	// on namespaces: its value is the tenant that owns the namespace.
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

// podKeys are the label and annotation keys below Domain that mean something on
// a pod. A plugin that reads a new one adds it here.
var podKeys = map[string]struct{}{
	GPUModelAnnotation:              {},
	GPUMinMemoryAnnotation:          {},
	GPUAssignedAnnotation:           {},
	ColocateWithAnnotation:          {},
	ColocatePreferAnnotation:        {},
	ColocateRequireWithinAnnotation: {},
	BenchLabel:                      {},
}

// IsUnknownPodKey reports whether key, a label or annotation key of a pod, lies
// in Berth's domain without meaning anything: most likely a typo.
func IsUnknownPodKey(key string) bool {
	if !strings.HasPrefix(key, prefix) {
		return false
	}
	_, known := podKeys[key]
	return !known
}

// Known returns every qualified name below Domain, for the test that looks for
// strays in manifests and documentation.
func Known() []string {
	return []string{
		TenantLabel, TenantNodeLabel, LabelPresenceFragment,
		GPUMilliResource, GPUMemoryResource, GPUModelAnnotation, GPUMinMemoryAnnotation, GPUAssignedAnnotation,
		GPUDevicesAnnotationPrefix, GPUSharingLabel, GPUCordonedAnnotation, GPUUUIDsAnnotation, GPUDeviceFragment,
		ColocateWithAnnotation, ColocatePreferAnnotation, ColocateRequireWithinAnnotation, AllowColocationFromAnnotation,
		BenchLabel, BenchAPIVersion,
	}
}
