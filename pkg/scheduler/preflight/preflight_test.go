// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The answers themselves come from a real API server: test/integration/manifests
// takes one rule after another out of the shipped role.

func TestRightString(t *testing.T) {
	tests := []struct {
		name  string
		right Right
		want  string
	}{
		{
			name:  "core resource",
			right: Right{Verb: "list", Resource: "nodes"},
			want:  "list nodes",
		},
		{
			name:  "subresource",
			right: Right{Verb: "create", Resource: "pods", Subresource: "binding"},
			want:  "create pods/binding",
		},
		{
			name:  "named object in a group and a namespace",
			right: Right{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "berth-system", Name: "x"},
			want:  `update leases.coordination.k8s.io "x" in namespace "berth-system"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.right.String()); diff != "" {
				t.Errorf("unexpected text (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestMissingRightsErrorNamesEveryRight(t *testing.T) {
	err := &MissingRightsError{
		User: "system:serviceaccount:a:b",
		Missing: append(
			Expand(Right{Resource: "nodes", Why: "nodes are what pods are placed on"}, "list", "watch"),
			Right{Verb: "create", Resource: "pods", Subresource: "binding"},
		),
	}
	want := `user "system:serviceaccount:a:b" lacks 3 permission(s):
  list nodes: nodes are what pods are placed on
  watch nodes: nodes are what pods are placed on
  create pods/binding`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("unexpected text (-want,+got):\n%s", diff)
	}
}
