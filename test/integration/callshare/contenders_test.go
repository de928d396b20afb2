// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
)

// colocationProfile is the shipped one, used as it is.
const colocationProfile = "config/berth-scheduler/colocation.yaml"

// contender is a scheduler and what a user of it writes into the pods.
type contender struct {
	name          string
	schedulerName string
	// prepare changes a pod of a Deployment that talks to neighbours.
	prepare func(pod *corev1.Pod, neighbours []target)
}

// target is a Service to be near.
type target struct {
	name     string
	selector map[string]string
}

const (
	stock         = "stock"
	stockAffinity = "stock, affinity"
	berth         = "Berth"
)

// contenders know of each other's pods what their users have written: who talks to
// whom, each Service counting the same.
var contenders = []contender{
	{stock, corev1.DefaultSchedulerName, func(*corev1.Pod, []target) {}},
	{stockAffinity, corev1.DefaultSchedulerName, preferAffinity},
	{berth, names.Scheduler, colocate},
}

// preferAffinity is the best practice on stock: a preference for the node and the
// zone of a pod of each Service that the pod talks to, the node counting more.
func preferAffinity(pod *corev1.Pod, targets []target) {
	if len(targets) == 0 {
		return
	}
	affinity := &corev1.PodAffinity{}
	for _, target := range targets {
		for key, weight := range map[string]int32{corev1.LabelHostname: 100, corev1.LabelTopologyZone: 50} {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{
				Weight:          weight,
				PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: target.selector}},
			})
		}
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: affinity}
}

// colocate names the same Services, and the same levels.
func colocate(pod *corev1.Pod, targets []target) {
	if len(targets) == 0 {
		return
	}
	var services []string
	for _, target := range targets {
		services = append(services, target.name+"=100")
	}
	pod.Annotations = map[string]string{
		names.ColocateWithAnnotation:         strings.Join(services, ","),
		names.ColocateTopologyKeysAnnotation: corev1.LabelHostname + "," + corev1.LabelTopologyZone,
	}
}

// targets returns the Services that the pods of a Deployment talk to.
func targets(t *testing.T, a application, graph *callgraph.Graph, deployment types.NamespacedName) []target {
	t.Helper()
	neighbours, err := graph.Neighbours(deployment)
	if err != nil {
		t.Fatal(err)
	}
	var found []target
	for _, neighbour := range neighbours {
		for i := range a.services {
			if a.services[i].Name == neighbour.Service.Name {
				found = append(found, target{neighbour.Service.Name, a.services[i].Spec.Selector})
			}
		}
	}
	return found
}
