// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// BenchmarkPlainPod is what a pod that uses no plugin of Berth's costs under stock and
// with all plugins on: one cycle on a cluster without devices, from the pod's arrival to
// its deletion, in one goroutine.
func BenchmarkPlainPod(b *testing.B) {
	const nodes = 500
	for _, profile := range []string{stockProfile, "config/berth-scheduler/all-plugins.yaml"} {
		b.Run(fmt.Sprintf("%s/nodes=%d", profile, nodes), func(b *testing.B) {
			objects := &cluster.Cluster{}
			if err := objects.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}); err != nil {
				b.Fatal(err)
			}
			for i := range nodes {
				if err := objects.Add(makeNode(fmt.Sprintf("node-%03d", i), 16)); err != nil {
					b.Fatal(err)
				}
			}
			c := loadProfile(b, profile)
			e := newEngine(b, Options{Config: c}, objects)
			pod := makePod("plain", "cpu", "100m", "memory", "64Mi")
			pod.Spec.SchedulerName = c.Profiles[0].SchedulerName
			b.ReportAllocs()
			before := processCPU(b)
			for b.Loop() {
				if result := schedule(b, e, pod); result.Node == "" {
					b.Fatal(result.Message)
				}
				if err := e.Delete(b.Context(), pod.Namespace, pod.Name); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processCPU(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
