// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulator holds the simulator against a scheduler that runs: the same
// configuration, the same cluster, the same pods in the same order must lead to
// the same feasible nodes, the same scores and the same devices. What the expected
// workload was at a decision follows from the attempts before it, which are made
// again one by one: a pod counts at its first.
package simulator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	nodeCount = 24
	podCount  = 190
	// wantDecisions is how many decisions between two or more nodes have to be
	// compared at least.
	wantDecisions = 100
	namespace     = metav1.NamespaceDefault
)

// TestSameDecisions lets a berth-scheduler with all three plugins place pods on an
// API server, and the simulator follow it decision by decision.
func TestSameDecisions(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: makeNodes()})
	c.ApplyManifests(t, "manifests/base")
	for _, name := range []string{"front", "back"} {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if _, err := c.Client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	profile, err := filepath.Abs("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scheduler := c.StartBerthScheduler(t, profile, framework.SchedulerOptions{Args: []string{verboseLog}})
	before, _, err := cluster.List(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}

	// The order in which the queue hands them out is the log's, not ours.
	pods := makePods()
	for _, pod := range pods {
		pod.Namespace = namespace
		c.CreatePod(t, pod)
	}
	placed := waitUntilSettled(t, c, len(pods))
	scheduler.Stop(t) // all of its log is there
	follow(t, profile, before, placed, readAttempts(t, scheduler.Output()))
}

// waitUntilSettled waits until every pod has been tried, and returns them.
func waitUntilSettled(t *testing.T, c *framework.Cluster, want int) map[string]*corev1.Pod {
	t.Helper()
	settled := map[string]*corev1.Pod{}
	framework.WaitForCondition(t, framework.WaitTimeout, "every pod was placed or refused", func() (bool, error) {
		list, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		clear(settled)
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Spec.NodeName != "" || framework.PodScheduledCondition(pod) != nil {
				settled[pod.Namespace+"/"+pod.Name] = pod
			}
		}
		return len(settled) == want, nil
	})
	return settled
}

// follow makes every attempt again, in the simulator. The attempt that placed a pod
// is its last.
func follow(t *testing.T, profile string, before *cluster.Cluster, placed map[string]*corev1.Pod, attempts []attempt) {
	t.Helper()
	content, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	config, err := registry.LoadConfiguration(profile, content)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := engine.New(t.Context(), engine.Options{Config: config}, before)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	}()

	last := map[string]int{}
	for i := range attempts {
		last[attempts[i].pod] = i
	}
	compared, refused, withScore := 0, 0, map[string]int{}
	for i := range attempts {
		want := &attempts[i]
		live, ok := placed[want.pod]
		if !ok {
			continue // deleted meanwhile, or of another scheduler
		}
		pending := unplaced(live)
		if live.Spec.NodeName == "" || last[want.pod] != i {
			refused++
			got, err := sim.Schedule(t.Context(), pending)
			if err != nil {
				t.Fatal(err)
			}
			if got.Node != "" {
				t.Fatalf("Attempt %d: %s was refused, the simulator puts it on %s", i, want.pod, got.Node)
			}
			continue
		}
		got, err := sim.ScheduleOn(t.Context(), pending, live.Spec.NodeName)
		if err != nil {
			t.Fatalf("Attempt %d: %v", i, err)
		}
		if diff := cmp.Diff(recordOf(live), recordOf(got.Pod)); diff != "" {
			t.Errorf("Attempt %d: %s has other devices (-scheduler,+simulator):\n%s", i, want.pod, diff)
		}
		scores, totals := scoresOf(got)
		if diff := cmp.Diff(want.scores, scores); diff != "" {
			t.Fatalf("Attempt %d: %s has other scores (-scheduler,+simulator):\n%s", i, want.pod, diff)
		}
		if diff := cmp.Diff(want.totals, totals); diff != "" {
			t.Fatalf("Attempt %d: %s has other totals (-scheduler,+simulator):\n%s", i, want.pod, diff)
		}
		if len(want.scores) == 0 {
			if got.Feasible != 1 {
				t.Errorf("Attempt %d: %s had one node, the simulator finds %d", i, want.pod, got.Feasible)
			}
			continue
		}
		compared++
		for plugin := range slices.Collect(maps.Values(scores))[0] {
			withScore[plugin]++
		}
	}
	t.Logf("%d attempts: %d decisions between nodes compared, %d refusals; scored by %v", len(attempts), compared, refused, withScore)
	if compared < wantDecisions || refused == 0 {
		t.Errorf("%d decisions and %d refusals were compared, want at least %d and 1", compared, refused, wantDecisions)
	}
	for _, plugin := range []string{"LabelPresence", "GPUDevice", "Colocation"} {
		if withScore[plugin] == 0 {
			t.Errorf("%s scored no node in any decision", plugin)
		}
	}
}

// scoresOf are the scores by node and plugin, and their sums by node.
func scoresOf(result engine.Result) (scores map[string]map[string]int64, totals map[string]int64) {
	scores, totals = map[string]map[string]int64{}, map[string]int64{}
	for _, node := range result.Scores {
		totals[node.Name] = node.TotalScore
		scores[node.Name] = map[string]int64{}
		for _, plugin := range node.Scores {
			scores[node.Name][plugin.Name] = plugin.Score
		}
	}
	return scores, totals
}

// unplaced is the pod as it was before anybody placed it.
func unplaced(pod *corev1.Pod) *corev1.Pod {
	pending := pod.DeepCopy()
	pending.Spec.NodeName = ""
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	for key := range pending.Annotations {
		if isRecord(key) {
			delete(pending.Annotations, key)
		}
	}
	return pending
}

func isRecord(key string) bool {
	return key == names.GPUAssignedAnnotation || strings.HasPrefix(key, names.GPUDevicesAnnotationPrefix)
}

// recordOf are the annotations of the pod's Binding.
func recordOf(pod *corev1.Pod) map[string]string {
	record := map[string]string{}
	for key, value := range pod.Annotations {
		if isRecord(key) {
			record[key] = value
		}
	}
	return record
}

// makeNodes are nodes of several kinds in three zones.
func makeNodes() []corev1.Node {
	nodes := localcluster.FakeNodes(nodeCount)
	for i := range nodes {
		node := &nodes[i]
		node.Name = fmt.Sprintf("node-%02d", i)
		maps.Copy(node.Labels, map[string]string{
			corev1.LabelHostname:     node.Name,
			corev1.LabelTopologyZone: "zone-" + strconv.Itoa(i%3),
		})
		if i%2 == 0 {
			maps.Copy(node.Labels, map[string]string{
				names.GPUSharingLabel:    "true",
				"nvidia.com/gpu.count":   strconv.Itoa(3 + i%4),
				"nvidia.com/gpu.memory":  "16384",
				"nvidia.com/gpu.product": []string{"T4", "A100"}[i/2%2],
			})
		}
		if i%5 == 0 {
			node.Labels["fast-disk"] = ""
		}
		if i%7 == 0 {
			node.Labels["spot"] = ""
		}
		cpus := resource.MustParse(strconv.Itoa(8 + 8*(i%3)))
		node.Status.Allocatable[corev1.ResourceCPU], node.Status.Capacity[corev1.ResourceCPU] = cpus, cpus
	}
	return nodes
}

// makePods are pods that every plugin has something to say to, and some for which
// there is no room.
func makePods() []*corev1.Pod {
	random := rand.New(rand.NewPCG(42, 0))
	var pods []*corev1.Pod
	for i := range podCount {
		limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse([]string{"250m", "500m", "1", "2"}[random.IntN(4)])}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("pod-%03d", i), Labels: map[string]string{"app": []string{"front", "back", "batch"}[random.IntN(3)]}, Annotations: map[string]string{},
			},
			Spec: corev1.PodSpec{
				SchedulerName: names.Scheduler,
				Containers:    []corev1.Container{{Name: "main", Image: "registry.example.com/app", Resources: corev1.ResourceRequirements{Limits: limits}}},
			},
		}
		switch random.IntN(5) {
		case 0:
			limits[names.GPUMilliResource] = resource.MustParse(strconv.Itoa(1000 * (1 + random.IntN(2))))
		case 1, 2:
			limits[names.GPUMilliResource] = resource.MustParse(strconv.Itoa(50 * (1 + random.IntN(19))))
		}
		switch random.IntN(5) {
		case 0:
			pod.Annotations[names.ColocateWithAnnotation] = "back=3,front"
		case 1:
			pod.Labels["steady"] = "true"
		case 2:
			if _, ok := limits[names.GPUMilliResource]; ok {
				pod.Annotations[names.GPUModelAnnotation] = "A100"
			}
		}
		pods = append(pods, pod)
	}
	return pods
}
