// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

// tally is an environment in which only what becomes of nodes matters.
type tally struct {
	Environment
	did []string
}

func (t *tally) Reset(context.Context) error { return nil }

func (t *tally) DeleteNodes(context.Context) error {
	t.did = append(t.did, "delete")
	return nil
}

func (t *tally) CreateNodes(context.Context, []corev1.Node) error {
	t.did = append(t.did, "create")
	return nil
}

// TestNodesAnew: all schedulers of a benchmark begin on nodes that are as old.
func TestNodesAnew(t *testing.T) {
	const header = "apiVersion: bench.berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: test}\nspec:\n  pods: [{name: a, count: 1}]\n"
	tests := []struct {
		name, nodes string
		want        []string
	}{
		{"the same nodes for all", "  nodes: [{count: 1, cpu: 1, memory: 1Gi}]\n", []string{"create"}},
		{
			"devices, which one format advertises", "  nodes: [{count: 1, cpu: 1, memory: 1Gi, gpu: {model: Tesla-T4, count: 1, memoryMiB: 15360}}]\n",
			[]string{"create", "delete", "create", "delete", "create"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "test.yaml")
			if err := os.WriteFile(file, []byte(header+tt.nodes), 0o600); err != nil {
				t.Fatal(err)
			}
			w, err := workload.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			environment := &tally{}
			e, err := New(Options{
				Plan: w.Plan, Config: &rest.Config{}, Environment: environment, Limit: schedulers.Limit{QPS: 1, Burst: 1},
				Schedulers: []*schedulers.Spec{{Name: "one"}, {Name: "shares", Shares: true}, {Name: "other"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			// The last two need the same nodes.
			for _, i := range []int{1, 0, 2} {
				if err := e.prepareNodes(t.Context(), e.plans[requestFormatOf(e.options.Schedulers[i])].Nodes); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, environment.did); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}
