// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestDiagnose asks all plugins, where Schedule would stop at the first that rejects a
// node, or refuses the pod.
func TestDiagnose(t *testing.T) {
	tainted := makeSharedNode("gpu", 4, 1, "T4")
	tainted.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster[runtime.Object](t,
		tainted, makeNode("plain", 8),
		on(makePod("running", "cpu", "3"), "gpu"),
	))
	picky := makePod("picky", "cpu", "2", names.GPUMilliResource, "500")
	picky.Annotations = map[string]string{names.GPUModelAnnotation: "H100"}

	type verdicts map[string][]string
	for _, tt := range []struct {
		name     string
		pod      *corev1.Pod
		refusals []string
		want     verdicts
	}{
		{
			name: "a node is rejected by several plugins",
			pod:  makePod("share", "cpu", "2", names.GPUMilliResource, "500"),
			want: verdicts{"gpu": {"TaintToleration", "NodeResourcesFit"}, "plain": {"GPUDevice"}},
		},
		{
			name:     "a plugin refuses the pod, and the others are asked all the same",
			pod:      picky,
			refusals: []string{"GPUDevice"},
			want:     verdicts{"gpu": {"TaintToleration", "NodeResourcesFit"}, "plain": nil},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := e.Diagnose(t.Context(), tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			var refusals []string
			for _, v := range d.Refusals {
				refusals = append(refusals, v.Plugin)
			}
			if diff := cmp.Diff(tt.refusals, refusals); diff != "" {
				t.Errorf("refusals (-want,+got):\n%s", diff)
			}
			got := verdicts{}
			for _, n := range d.Nodes {
				var plugins []string
				for _, v := range n.Verdicts {
					plugins = append(plugins, v.Plugin)
				}
				got[n.Node.Node().Name] = plugins
			}
			for node := range got {
				if diff := cmp.Diff(sets.New(tt.want[node]...), sets.New(got[node]...)); diff != "" {
					t.Errorf("node %s (-want,+got):\n%s", node, diff)
				}
			}
		})
	}
}

// TestSetAndRemove changes objects between cycles, and puts them back.
func TestSetAndRemove(t *testing.T) {
	node := makeSharedNode("gpu", 4, 1, "T4")
	running := on(makePod("running", names.GPUMilliResource, "700", "cpu", "1"), "gpu")
	running.Annotations = map[string]string{names.GPUAssignedAnnotation: "main=0:700m:11468Mi", names.GPUDevicesAnnotationPrefix + "main": "0"}
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile), Preemption: true}, makeCluster[runtime.Object](t, node, running))
	pod := makePod("pod", names.GPUMilliResource, "500", "cpu", "1")
	placed := func() string {
		t.Helper()
		result, err := e.Try(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Remove(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		return result.Node
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	two := node.DeepCopy()
	two.Labels["nvidia.com/gpu.count"] = "2"
	another := makeSharedNode("another", 4, 1, "T4")
	for _, step := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"as it is", func() error { return nil }, ""},
		{"another device", func() error { return e.Set(t.Context(), two) }, "gpu"},
		{"one again", func() error { return e.Set(t.Context(), node) }, ""},
		{"the pod is gone", func() error { return e.Remove(t.Context(), running) }, "gpu"},
		{"it is back", func() error { return e.Set(t.Context(), running) }, ""},
		{"another node", func() error { return e.Set(t.Context(), another) }, "another"},
		{"it is gone", func() error { return e.Remove(t.Context(), another) }, ""},
		{"gone again", func() error { return e.Remove(t.Context(), another) }, ""},
	} {
		do(step.change())
		if got := placed(); got != step.want {
			t.Errorf("%s: placed on %q, want %q", step.name, got, step.want)
		}
	}
	if err := e.Set(t.Context(), running); err == nil {
		t.Error("a pod that is known was set")
	}
	if err := e.Set(t.Context(), &corev1.Secret{}); err == nil {
		t.Error("a Secret was set")
	}
}

// TestTry does not evict, where Schedule would.
func TestTry(t *testing.T) {
	e := newEngine(t, Options{Config: loadProfile(t, stockProfile), Preemption: true}, makeCluster[runtime.Object](t,
		makeNode("node", 2), on(makePod("low", "cpu", "2"), "node")))
	high := makePod("high", "cpu", "2")
	high.Spec.SchedulerName, high.Spec.Priority = corev1.DefaultSchedulerName, new(int32(1000))
	result, err := e.Try(t.Context(), high)
	if err != nil || result.Node != "" || len(result.Victims) > 0 {
		t.Errorf("Try: node %q, victims %v, error %v; want none", result.Node, result.Victims, err)
	}
	if result, err = e.Schedule(t.Context(), high); err != nil || result.Node != "node" || len(result.Victims) != 1 {
		t.Errorf("Schedule: node %q, victims %v, error %v; want one victim", result.Node, result.Victims, err)
	}
}
