// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestColocationArgsDefaults(t *testing.T) {
	levels := []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
	tests := []struct {
		name string
		args *ColocationArgs
		want *ColocationArgs
	}{
		{
			name: "nothing set",
			args: &ColocationArgs{},
			want: &ColocationArgs{TopologyKeys: levels, NodeSearch: SearchPeersFirst},
		},
		{
			name: "weights, where they are missing",
			args: &ColocationArgs{Rules: []ColocationRule{
				{Services: []ColocationService{{Name: "a"}, {Name: "b", Weight: ptr.To[int32](7)}}},
				{Weight: ptr.To[int32](5)},
			}},
			want: &ColocationArgs{
				TopologyKeys: levels, NodeSearch: SearchPeersFirst,
				Rules: []ColocationRule{
					{Services: []ColocationService{{Name: "a", Weight: ptr.To[int32](1)}, {Name: "b", Weight: ptr.To[int32](7)}}, Weight: ptr.To[int32](1)},
					{Weight: ptr.To[int32](5)},
				},
			},
		},
		{
			name: "what is set stays, also if it is wrong",
			args: &ColocationArgs{
				TopologyKeys: []string{}, NodeSearch: "all",
				Rules: []ColocationRule{{Services: []ColocationService{{Weight: ptr.To[int32](0)}}, Weight: ptr.To[int32](0)}},
			},
			want: &ColocationArgs{
				TopologyKeys: []string{}, NodeSearch: "all",
				Rules: []ColocationRule{{Services: []ColocationService{{Weight: ptr.To[int32](0)}}, Weight: ptr.To[int32](0)}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := AddToScheme(scheme); err != nil {
				t.Fatalf("AddToScheme: %v", err)
			}
			got := tt.args.DeepCopy()
			scheme.Default(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected defaults (-want,+got):\n%s", diff)
			}
		})
	}
}

// Two objects must not share what a default gave them.
func TestColocationArgsDefaultsAreFresh(t *testing.T) {
	makeArgs := func() *ColocationArgs { return &ColocationArgs{Rules: []ColocationRule{{}}} }
	first, second := makeArgs(), makeArgs()
	SetDefaults_ColocationArgs(first)
	SetDefaults_ColocationArgs(second)
	first.TopologyKeys[0] = "changed"
	*first.Rules[0].Weight = 50
	if diff := cmp.Diff([]string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}, second.TopologyKeys); diff != "" {
		t.Errorf("Changing one object changed another (-want,+got):\n%s", diff)
	}
	if got := *second.Rules[0].Weight; got != 1 {
		t.Errorf("Changing the weight in one object made it %d in another", got)
	}
}
