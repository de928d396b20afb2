// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind says what is wrong. The set is closed.
type Kind string

const (
	// Overcommitted is a device of which more is held than it has.
	Overcommitted Kind = "Overcommitted"
	// Unrecorded is a pod that asks for shares, has a node and no record of its devices.
	Unrecorded Kind = "Unrecorded"
	// Torn is a version of a pod with a node and without its devices, or the other
	// way round.
	Torn Kind = "Torn"
	// WrongRecord is a record that does not say what the pod asks for, or names
	// devices that its node has not got.
	WrongRecord Kind = "WrongRecord"
	// WrongNode is a pod with shares on a node that does not share devices.
	WrongNode Kind = "WrongNode"
	// Moved is a record, or a node, that changed after the pod was bound.
	Moved Kind = "Moved"
	// Lost is a pod that was created, was not deleted, and is gone.
	Lost Kind = "Lost"
	// Silent is a pod without a node of which nobody says why.
	Silent Kind = "Silent"
	// Stranded is a pod without a node although a node has room for it.
	Stranded Kind = "Stranded"
	// WrongView is a scheduler that counts otherwise than the API does.
	WrongView Kind = "WrongView"
)

// Problem is one thing that is wrong.
type Problem struct {
	Kind Kind
	// Object is the pod as namespace/name, the device as node/index, or the model.
	Object string
	// Pods are the pods on an overcommitted device, sorted.
	Pods []string
	// Detail says it in words.
	Detail string
}

// String returns one line.
func (p Problem) String() string {
	text := fmt.Sprintf("%s %s: %s", p.Kind, p.Object, p.Detail)
	if len(p.Pods) > 0 {
		text += " (" + strings.Join(p.Pods, ", ") + ")"
	}
	return text
}

// Problems are a list of them.
type Problems []Problem

// Of returns those of some kinds.
func (ps Problems) Of(kinds ...Kind) Problems {
	var some Problems
	for _, p := range ps {
		if slices.Contains(kinds, p.Kind) {
			some = append(some, p)
		}
	}
	return some
}

// String returns the first twenty, a line each, and how many there are.
func (ps Problems) String() string {
	const most = 20
	lines := []string{fmt.Sprintf("%d problems", len(ps))}
	for i, p := range ps {
		if i == most {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n\t")
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return ps
}
