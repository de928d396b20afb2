// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/berth-scheduler/berth/pkg/apis/names"

const (
	// APIVersion is the apiVersion of a workload file.
	APIVersion = names.BenchAPIVersion
	// Kind is its kind.
	Kind = "Workload"
)

// Workload is what a benchmark runs: nodes, the pods that arrive at them, and how
// often that is measured. [Read] has checked it and filled in the defaults.
type Workload struct {
	// APIVersion and Kind are the constants of that name.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Metadata names the workload.
	Metadata Metadata `json:"metadata"`
	// Spec is everything else.
	Spec Spec `json:"spec"`

	// Path and SHA256 (in hexadecimal) are of the file that it was read from.
	Path   string `json:"-"`
	SHA256 string `json:"-"`
}

// Metadata names a workload.
type Metadata struct {
	// Name is what reports call it: a DNS label. Required.
	Name string `json:"name"`
}

// Spec says what a benchmark runs.
type Spec struct {
	// Description is what the reader of a report should know. It stands behind the
	// numbers of pods and nodes.
	Description string `json:"description,omitempty"`
	// Seed decides everything that is left to chance: the order of pods, the times of
	// Poisson arrivals, lifetimes, and where existing pods are. Default 0.
	Seed int64 `json:"seed,omitempty"`
	// Rounds is how often each scheduler runs the workload, 1 to 100. Default 3.
	Rounds int `json:"rounds,omitempty"`
	// RoundTimeout is after how long a round ends that has not settled, 1s to 24h.
	// Default 5m.
	RoundTimeout Duration `json:"roundTimeout,omitempty"`
	// ClientQPS is the rate limit of the bench's client and, where the bench starts
	// them, of every scheduler's, in requests a second, 1 to 100,000. Default 5000. A
	// round in which a scheduler comes near it does not count.
	ClientQPS float64 `json:"clientQPS,omitempty"`
	// Profiles are, by schedulerName, the configuration files that schedulers are
	// started with, relative to the workload's folder. default-scheduler needs none,
	// random-scheduler takes none, and every other scheduler needs one, here or on the
	// command line.
	Profiles map[string]string `json:"profiles,omitempty"`
	// Nodes are groups of equal nodes. At least one; 20,000 nodes at most in all.
	Nodes []NodeGroup `json:"nodes"`
	// Existing are groups of pods that have their nodes before anything is measured.
	Existing []PodGroup `json:"existing,omitempty"`
	// Pods are groups of equal pods that arrive. There must be some, or Applications;
	// 200,000 pods at most in all.
	Pods []PodGroup `json:"pods,omitempty"`
	// TotalPods is how many pods the groups of Pods have in all, where some have a
	// weight.
	TotalPods int `json:"totalPods,omitempty"`
	// Applications are pods behind Services that call each other. They arrive with
	// Pods.
	Applications []Application `json:"applications,omitempty"`
	// Order is in which order pods arrive. Default Shuffled.
	Order Order `json:"order,omitempty"`
	// Arrival is when pods arrive. Default a burst.
	Arrival ArrivalSpec `json:"arrival,omitempty"`
	// Hostile is a namespace whose owner writes the worst that the API server takes,
	// while the pods above arrive. Every round runs without it and with it. Default
	// none.
	Hostile *Hostile `json:"hostile,omitempty"`
}

// Hostile is what the owner of one namespace may do to slow others down.
type Hostile struct {
	// WritesPerSecond bounds the writes to the API server while pods arrive: from 1 to
	// 1,000. Default 10.
	WritesPerSecond float64 `json:"writesPerSecond,omitempty"`
	// WaitingPods is how many pods wait, from before the first pod of others arrives,
	// for a pod of the same namespace on a node where there is none: 1 to 10,000.
	// Default 100.
	WaitingPods int `json:"waitingPods,omitempty"`
	// Services is how many Services each waiting pod names, 1 to 32. Default 32.
	Services int `json:"services,omitempty"`
	// ConsentKiB is how long the list of namespaces in the annotation
	// berth.dev/allow-colocation-from of every fourth Service is, 1 to 250; the others'
	// are the longest that Colocation reads. Default 250.
	ConsentKiB int `json:"consentKiB,omitempty"`
}

// NodeGroup is nodes that are equal but for their names and zones.
type NodeGroup struct {
	// NamePrefix starts the names; a dash and a number follow, 42 characters at most in
	// all. Groups may share one. Default node.
	NamePrefix string `json:"namePrefix,omitempty"`
	// Count is how many there are, at least 1. Required.
	Count int `json:"count"`
	// Zones are the zones of the nodes, by turns. Without any, nodes have none.
	Zones []string `json:"zones,omitempty"`
	// CPU and Memory are what pods can have. Required.
	CPU    Quantity `json:"cpu"`
	Memory Quantity `json:"memory"`
	// Pods is how many pods the node takes, at least 1. Default 110.
	Pods *int64 `json:"pods,omitempty"`
	// Labels are labels beside those that the kubelet and GPU feature discovery set.
	Labels map[string]string `json:"labels,omitempty"`
	// GPU are the node's devices, if it has any.
	GPU *NodeGPU `json:"gpu,omitempty"`
}

// NodeGPU is the devices of a node.
type NodeGPU struct {
	// Model is the product as GPU feature discovery writes it. Required.
	Model string `json:"model"`
	// Count is how many there are, 1 to 16. Required.
	Count int `json:"count"`
	// MemoryMiB is the memory of each, in MiB. Required.
	MemoryMiB int64 `json:"memoryMiB"`
}

// PodGroup is pods that are equal but for their names.
type PodGroup struct {
	// Name starts the pods' names, a number follows, and is their label app. Required.
	Name string `json:"name"`
	// Count is how many there are. Either it or Weight, and in existing always it.
	Count int `json:"count,omitempty"`
	// Weight is the group's part of the pods that spec.totalPods leaves after the groups
	// with a count, relative to the other groups with a weight.
	Weight int `json:"weight,omitempty"`
	// CPU and Memory are what each pod requests. Default nothing.
	CPU    Quantity `json:"cpu,omitempty"`
	Memory Quantity `json:"memory,omitempty"`
	// Labels are labels beside app.
	Labels map[string]string `json:"labels,omitempty"`
	// GPU is what each pod asks for of devices. Not in existing.
	GPU *PodGPU `json:"gpu,omitempty"`
	// RequireNodeLabels are label keys that the nodes of these pods must carry, and
	// ForbidNodeLabels those that they must not. Pods do not carry this requirement: it is what
	// a scheduler's profile may enforce (LabelPresence, or NodeAffinity's addedAffinity),
	// and what a report counts violations of.
	RequireNodeLabels []string `json:"requireNodeLabels,omitempty"`
	ForbidNodeLabels  []string `json:"forbidNodeLabels,omitempty"`
	// Lifetime is after how long a pod that was bound is deleted. Default never. Not in
	// existing.
	Lifetime *Lifetime `json:"lifetime,omitempty"`
}

// PodGPU is what a pod asks for of devices: exactly one of Milli, Memory and Count.
type PodGPU struct {
	// Milli is a share of one device, in thousandths, 1 to 999.
	Milli int64 `json:"milli,omitempty"`
	// Memory is a share of one device by its memory, in whole MiB.
	Memory Quantity `json:"memory,omitempty"`
	// Count is whole devices, 1 to 16.
	Count int `json:"count,omitempty"`
	// Models are the device models that the pod accepts, where * stands for any run of
	// characters. Default all.
	Models []string `json:"models,omitempty"`
}

// Lifetime is how long pods live once they are bound.
type Lifetime struct {
	// Mean is the mean lifetime, 1ms to 24h. Required.
	Mean Duration `json:"mean"`
	// Distribution is how lifetimes vary. Default Exponential.
	Distribution LifetimeDistribution `json:"distribution,omitempty"`
}

// LifetimeDistribution is how lifetimes vary around their mean.
type LifetimeDistribution string

const (
	// Exponential has lifetimes that do not depend on how long a pod has lived already:
	// many short ones, few long ones.
	Exponential LifetimeDistribution = "Exponential"
	// Fixed has every pod live for exactly the mean.
	Fixed LifetimeDistribution = "Fixed"
)

// Application is Services that call each other, with the pods behind them.
type Application struct {
	// Name starts the names of the application's objects: <name>-<copy>-<service>.
	// Required.
	Name string `json:"name"`
	// Copies is how many there are of the whole application, at least 1. Copies do not
	// call each other. Default 1.
	Copies *int `json:"copies,omitempty"`
	// Replicas is how many pods each service has, at least 1. Default 1.
	Replicas *int `json:"replicas,omitempty"`
	// SpreadOverZones keeps the pods of each service even over the zones, as who wants
	// to survive the loss of one does: a topologySpreadConstraint with maxSkew 1 and
	// DoNotSchedule.
	SpreadOverZones bool `json:"spreadOverZones,omitempty"`
	// Colocate is which services a pod names in its annotation colocate-with. Default
	// Neighbours. Schedulers without the plugin Colocation do not read it.
	Colocate Colocate `json:"colocate,omitempty"`
	// ColocatePrefer are the topology keys of the annotation colocate-topology-keys, nearest
	// first. Default none: the profile decides.
	ColocatePrefer []string `json:"colocatePrefer,omitempty"`
	// Services are its services. At least one.
	Services []Service `json:"services"`
}

// Colocate is which services a pod asks to be near.
type Colocate string

const (
	// Neighbours names the services that a pod calls and those that call it, each with
	// the part of the calls that goes there as its weight.
	Neighbours Colocate = "Neighbours"
	// Callees names the services that a pod calls.
	Callees Colocate = "Callees"
	// Nobody leaves the annotation out.
	Nobody Colocate = "Nobody"
)

// Service is a Deployment and the Service in front of it.
type Service struct {
	// Name is its name within the application, a DNS label that begins with a letter.
	// Required.
	Name string `json:"name"`
	// Replicas is how many pods it has, at least 1. Default the application's.
	Replicas *int `json:"replicas,omitempty"`
	// CPU and Memory are what each pod requests. Default nothing.
	CPU    Quantity `json:"cpu,omitempty"`
	Memory Quantity `json:"memory,omitempty"`
	// Calls are the names of the services that its pods call.
	Calls []string `json:"calls,omitempty"`
}

// Order is in which order pods arrive.
type Order string

const (
	// Shuffled is a random order, decided by the seed.
	Shuffled Order = "Shuffled"
	// AsListed has the groups of pods one after the other, then the applications, copy
	// by copy and service by service.
	AsListed Order = "AsListed"
)

// ArrivalSpec is when pods arrive.
type ArrivalSpec struct {
	// Type is how. Default Burst.
	Type ArrivalType `json:"type,omitempty"`
	// PodsPerSecond is the rate, or for Poisson the mean rate: above 0, 10,000 at most,
	// and so that all pods arrive within RoundTimeout. Required for Steady and Poisson,
	// and not for Burst.
	PodsPerSecond float64 `json:"podsPerSecond,omitempty"`
}

// ArrivalType is how pods arrive.
type ArrivalType string

const (
	// Burst creates all pods as fast as the client may.
	Burst ArrivalType = "Burst"
	// Steady creates them at equal intervals.
	Steady ArrivalType = "Steady"
	// Poisson creates them independently of each other, at a mean rate.
	Poisson ArrivalType = "Poisson"
)
