// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package names

const (
	// ColocateWithAnnotation is the pod annotation that lists the Services which a
	// pod talks to: "backend=3,cache,other/db=10". A name without a namespace is in
	// the pod's own; what follows = is a weight, 1 to 100, and 1 if it is missing.
	ColocateWithAnnotation = prefix + "colocate-with"
	// ColocateTopologyKeysAnnotation is the pod annotation that lists topology keys,
	// nearest first: the nearest one that a node shares with a peer counts.
	ColocateTopologyKeysAnnotation = prefix + "colocate-topology-keys"
	// ColocateRequiredTopologyKeyAnnotation is the pod annotation with the topology
	// key within which a peer must be.
	ColocateRequiredTopologyKeyAnnotation = prefix + "colocate-required-topology-key"
	// AllowColocationFromAnnotation is the annotation of a Service that lists the
	// namespaces whose pods may ask to be near its pods; * is every namespace.
	AllowColocationFromAnnotation = prefix + "allow-colocation-from"
)

// The names that two annotations of pods had before. A pod that carries one is
// refused, with the name that it has now.
const (
	// FormerColocatePreferAnnotation is ColocateTopologyKeysAnnotation now.
	FormerColocatePreferAnnotation = prefix + "colocate-prefer"
	// FormerColocateRequireWithinAnnotation is ColocateRequiredTopologyKeyAnnotation
	// now.
	FormerColocateRequireWithinAnnotation = prefix + "colocate-require-within"
)
