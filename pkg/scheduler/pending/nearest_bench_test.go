// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// BenchmarkExplain is one failed attempt on 5,000 nodes: without naming one, when a pod
// fails for the first time, and when it fails again.
func BenchmarkExplain(b *testing.B) {
	var nodes []*corev1.Node
	statuses := diagnosis{}
	for i := range 5000 {
		nodes = append(nodes, stocked(fmt.Sprintf("node-%d", i), i%9))
		statuses[nodes[i].Name] = tooLittle()
	}
	first := st.MakePod().Name("p").Obj()
	fw := withSnapshot{profile{name: "p"}, internalcache.NewSnapshot(nil, nodes)}
	for _, bb := range []struct {
		name string
		pod  *corev1.Pod
		with []shortfall.Plugin
	}{
		{name: "without", pod: first},
		{name: "first", pod: first, with: []shortfall.Plugin{stockPlugin(10)}},
		{name: "again", pod: first.DeepCopy(), with: []shortfall.Plugin{stockPlugin(10)}},
	} {
		b.Run("nodes=5000/"+bb.name, func(b *testing.B) {
			e := measuring(10)
			e.Measuring["p"] = bb.with
			fit := statuses.fitError(bb.pod, "", "")
			if bb.name == "again" {
				explained, _ := e.explain(fw, bb.pod, fit)
				bb.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Message: explained.Error()}}
			}
			var explained *framework.FitError
			b.ReportAllocs()
			for b.Loop() {
				explained, _ = e.explain(fw, bb.pod, fit)
			}
			if strings.Contains(explained.Error(), "nearest: node node-") != (bb.with != nil) {
				b.Fatal(explained)
			}
		})
	}
}
