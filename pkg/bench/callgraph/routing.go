// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Routing is how a Service's calls are spread over its endpoints: the value of its
// spec.trafficDistribution (KEP-4444, KEP-3015), and Uniform for none.
//
// With a value, the EndpointSlice controller hints every ready endpoint for its own
// zone, and under PreferSameNode for its own node too. It weighs nothing: a zone
// with one endpoint and many callers overloads it. kube-proxy then uses the
// endpoints that are hinted for its node, if every ready one has a hint for a node
// and one has it for this; else those hinted for its zone, by the same rule; else
// all. So one endpoint on a node without a zone undoes PreferSameZone everywhere.
type Routing string

const (
	// Uniform spreads calls over all ready endpoints, wherever they are.
	Uniform Routing = "Uniform"
	// PreferSameZone uses the endpoints in the caller's zone if there are any.
	PreferSameZone Routing = corev1.ServiceTrafficDistributionPreferSameZone
	// PreferSameNode uses the endpoints on the caller's node if there are any, and
	// otherwise does as PreferSameZone.
	PreferSameNode Routing = corev1.ServiceTrafficDistributionPreferSameNode
)

// Routings returns all, the nearest last.
func Routings() []Routing { return []Routing{Uniform, PreferSameZone, PreferSameNode} }

// valid returns an error for a Routing that is none of Routings.
func (r Routing) valid() error {
	switch r {
	case Uniform, PreferSameZone, PreferSameNode:
		return nil
	}
	return fmt.Errorf("routing %q: want one of %v", r, Routings())
}

// endpoints counts a Service's ready endpoints as one caller sees them.
type endpoints struct {
	// onNode are on the caller's node, inZone on other nodes of its zone, and
	// elsewhere all others.
	onNode, inZone, elsewhere int
	// zoneless are those of onNode and elsewhere whose node has no zone.
	zoneless int
}

// split returns which part of the calls, 0 to 1, stays within the caller's node and
// within its zone. The node is part of the zone. There must be an endpoint.
func (r Routing) split(e endpoints) (node, zone float64) {
	near := e.onNode + e.inZone
	switch {
	case r == PreferSameNode && e.onNode > 0:
		return 1, 1
	// An endpoint without a zone has no hint for one, and then no hint counts.
	case r != Uniform && e.zoneless == 0 && near > 0:
		return float64(e.onNode) / float64(near), 1
	}
	all := float64(near + e.elsewhere)
	return float64(e.onNode) / all, float64(near) / all
}
