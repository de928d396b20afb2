// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind says what is wrong.
type Kind string

// What can be wrong with devices and their allocation.
const (
	// Overcommitted is a device with more compute allocated than it has.
	Overcommitted Kind = "Overcommitted"
	// OvercommittedMemory is one where only the memory is.
	OvercommittedMemory Kind = "OvercommittedMemory"
	// InvalidRequest is a request that cannot be met on any node.
	InvalidRequest Kind = "InvalidRequest"
	// Unrecorded is a pod that requests shares, has a node and no readable record of
	// its devices.
	Unrecorded Kind = "Unrecorded"
	// Torn is a version of a pod with a node and without its devices, or the other way
	// round.
	Torn Kind = "Torn"
	// WrongRecord is a record that does not say what the pod requests, names devices
	// that its node does not have, or differs from what a container reads.
	WrongRecord Kind = "WrongRecord"
	// WrongNode is a pod on a node whose devices it cannot use.
	WrongNode Kind = "WrongNode"
	// Moved is a record, or a node, that changed after the pod was bound.
	Moved Kind = "Moved"
	// Lost is a pod that was created, was not deleted, and is gone.
	Lost Kind = "Lost"
	// Silent is a pod without a node and without a condition that says why.
	Silent Kind = "Silent"
	// Stranded is a pod without a node although a node has room for it.
	Stranded Kind = "Stranded"
	// WrongMetric is a scheduler that counts otherwise than the API does.
	WrongMetric Kind = "WrongMetric"
)

// What else can be wrong with where pods are.
const (
	// WrongTenant is a pod that entered the node of a tenant that is not its own.
	WrongTenant Kind = "WrongTenant"
	// Misplaced is a pod on a node that a rule keeps it from.
	Misplaced Kind = "Misplaced"
	// Unplaced is a pod without a node that should have one.
	Unplaced Kind = "Unplaced"
	// WrongScheduler is a pod that another scheduler placed than the one it names.
	WrongScheduler Kind = "WrongScheduler"
	// WrongReason is a pending pod of which its scheduler does not say the cause.
	WrongReason Kind = "WrongReason"
	// Overrequested is a node with more requested than is allocatable.
	Overrequested Kind = "Overrequested"
	// Missing is something that should be there to be checked.
	Missing Kind = "Missing"
	// Unchecked is a constraint of a pod that this package does not know.
	Unchecked Kind = "Unchecked"
)

// Violation is one thing that is wrong.
type Violation struct {
	Kind Kind
	// Object is a pod as namespace/name, a device as node/index or node/UUID, or what
	// Detail is about else.
	Object string
	// Pods are the pods on an overcommitted device, sorted.
	Pods []string
	// Detail says it in words.
	Detail string
}

// String returns one line.
func (v Violation) String() string { return fmt.Sprintf("%s %s: %s", v.Kind, v.Object, v.Detail) }

// Violations are a list of them.
type Violations []Violation

// add appends one.
func (vs *Violations) add(kind Kind, object, format string, args ...any) {
	*vs = append(*vs, Violation{Kind: kind, Object: object, Detail: fmt.Sprintf(format, args...)})
}

// Of returns those of some kinds.
func (vs Violations) Of(kinds ...Kind) Violations {
	var some Violations
	for _, v := range vs {
		if slices.Contains(kinds, v.Kind) {
			some = append(some, v)
		}
	}
	return some
}

// On returns those of one object.
func (vs Violations) On(object string) Violations {
	var some Violations
	for _, v := range vs {
		if v.Object == object {
			some = append(some, v)
		}
	}
	return some
}

// String returns the first twenty, a line each, and how many there are.
func (vs Violations) String() string {
	const most = 20
	lines := []string{fmt.Sprintf("%d violations", len(vs))}
	for i, v := range vs {
		if i == most {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n\t")
}

func (vs Violations) sorted() Violations {
	slices.SortStableFunc(vs, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return vs
}
