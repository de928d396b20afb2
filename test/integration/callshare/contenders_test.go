// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/test/integration/framework"
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
	// weight is the part of the caller's calls that goes there, in hundredths.
	weight int32
}

const (
	stock         = "stock"
	stockAffinity = "stock, affinity"
	random        = "random"
	berth         = "Berth"
)

// contenders know of each other's pods what their users have written: who talks to
// whom, and the same of both.
var contenders = []contender{
	{stock, corev1.DefaultSchedulerName, func(*corev1.Pod, []target) {}},
	{stockAffinity, corev1.DefaultSchedulerName, alike(preferAffinity)},
	{berth, names.Scheduler, alike(colocate)},
}

// chance places pods anywhere.
var chance = contender{random, names.RandomScheduler, func(*corev1.Pod, []target) {}}

// weighted are those who can be told how much each of the Services counts.
var weighted = []contender{
	{stockAffinity + ", weights", corev1.DefaultSchedulerName, preferAffinity},
	{berth + ", weights", names.Scheduler, colocate},
}

// startSchedulers starts the schedulers of the contenders, with the credentials that
// they are installed with.
func startSchedulers(t *testing.T, c *framework.Cluster) {
	t.Helper()
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.StartBerthScheduler(t, colocationProfile, framework.SchedulerOptions{})
	if !framework.Long() {
		return
	}
	framework.StartProcess(t, framework.RandomScheduler,
		"--kubeconfig="+c.ServiceAccountKubeconfig(t, names.Namespace, names.RandomScheduler),
		"--fit=resources", "--seed=1", "--workers=1", "--kube-api-qps=0", "--bind-address=", "-v=2",
	).WaitForOutput(t, framework.WaitTimeout, "Started binding")
}

// alike has all Services count the same.
func alike(prepare func(*corev1.Pod, []target)) func(*corev1.Pod, []target) {
	return func(pod *corev1.Pod, targets []target) {
		targets = slices.Clone(targets)
		for i := range targets {
			targets[i].weight = 100
		}
		prepare(pod, targets)
	}
}

// preferAffinity is the best practice on stock: a preference for the node and the
// zone of a pod of each Service that the pod talks to, the node counting more.
func preferAffinity(pod *corev1.Pod, targets []target) {
	if len(targets) == 0 {
		return
	}
	affinity := &corev1.PodAffinity{}
	for _, target := range targets {
		for key, weight := range map[string]int32{corev1.LabelHostname: target.weight, corev1.LabelTopologyZone: max(1, target.weight/2)} {
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
		services = append(services, fmt.Sprintf("%s=%d", target.name, target.weight))
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
				weight := min(100, int32(math.Round(100*neighbour.Calls)))
				found = append(found, target{neighbour.Service.Name, a.services[i].Spec.Selector, weight})
			}
		}
	}
	return found
}
