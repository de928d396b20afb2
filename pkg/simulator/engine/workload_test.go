// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
)

// makeVariedCluster is a cluster in which most in-tree plugins have something to
// say: zones, taints, devices, an unschedulable node, pods with affinity.
func makeVariedCluster(tb testing.TB, nodes int) *cluster.Cluster {
	tb.Helper()
	c := &cluster.Cluster{}
	add := func(obj runtime.Object) {
		tb.Helper()
		if err := c.Add(obj); err != nil {
			tb.Fatal(err)
		}
	}
	add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}})
	models := []string{"T4", "A100", "H100"}
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		node := makeNode(name, 8+8*(i%3))
		if i%4 != 0 {
			node = makeSharedNode(name, 8+8*(i%3), 1+i%4, models[i%len(models)])
		}
		node.Labels[corev1.LabelTopologyZone] = "zone-" + strconv.Itoa(i%3)
		switch i % 17 {
		case 3:
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
		case 5:
			node.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
		case 7:
			node.Spec.Unschedulable = true
		}
		add(node)
	}
	for i := range 20 {
		pod := on(makePod("old-"+strconv.Itoa(i), "cpu", "1"), fmt.Sprintf("node-%03d", 5*i%nodes))
		pod.Labels["app"] = "web"
		add(pod)
	}
	return c
}

// makeVariedPods are pods of many shapes in random order.
func makeVariedPods(count int, schedulerName string) []*corev1.Pod {
	random := rand.New(rand.NewPCG(7, 7))
	var pods []*corev1.Pod
	for i := range count {
		name := fmt.Sprintf("pod-%04d", i)
		cpu := strconv.Itoa(1 + random.IntN(4))
		var pod *corev1.Pod
		switch random.IntN(8) {
		case 0, 1:
			pod = makePod(name, "cpu", cpu)
		case 2:
			pod = makePod(name, "cpu", cpu, "memory", "20Gi")
		case 3:
			pod = makePod(name, "cpu", cpu, names.GPUMilliResource, strconv.Itoa(1000*(1+random.IntN(3))))
		default:
			pod = makePod(name, "cpu", cpu, names.GPUMilliResource, strconv.Itoa(100*(1+random.IntN(9))))
		}
		pod.Spec.SchedulerName = schedulerName
		pod.Labels["app"] = []string{"web", "api", "batch"}[random.IntN(3)]
		switch random.IntN(8) {
		case 0:
			pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-1"}
		case 1:
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		case 2:
			pod.Annotations = map[string]string{names.GPUModelAnnotation: "A100,H100"}
		case 3:
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 2, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
			}}
		case 4:
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
				}},
			}}
		case 5:
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				}}},
			}}
		}
		pods = append(pods, pod)
	}
	return pods
}
