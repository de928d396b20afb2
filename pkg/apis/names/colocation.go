// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package names

const (
	// ColocateWithAnnotation is the pod annotation that lists the Services which a
	// pod talks to: "backend=3,cache,other/db=10". A name without a namespace is in
	// the pod's own; what follows = is a weight, 1 to 100, and 1 if it is missing.
	ColocateWithAnnotation = prefix + "colocate-with"
	// ColocatePreferAnnotation is the pod annotation that lists topology keys,
	// nearest first: the nearest one that a node shares with a peer counts.
	ColocatePreferAnnotation = prefix + "colocate-prefer"
	// ColocateRequireWithinAnnotation is the pod annotation with the topology key
	// within which a peer must be.
	ColocateRequireWithinAnnotation = prefix + "colocate-require-within"
	// AllowColocationFromAnnotation is the annotation of a Service that lists the
	// namespaces whose pods may ask to be near its pods; * is every namespace.
	AllowColocationFromAnnotation = prefix + "allow-colocation-from"
)
