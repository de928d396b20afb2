// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// loadProfile decodes a profile as the scheduler does.
func loadProfile(t *testing.T, path string) *schedconfig.KubeSchedulerConfiguration {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := registry.LoadConfiguration(path, content)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestShippedProfiles holds the profiles to the schedulers that workloads name them
// for.
func TestShippedProfiles(t *testing.T) {
	named := map[string]bool{}
	for _, file := range shipped(t, Kind) {
		w, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for scheduler := range w.Spec.Profiles {
			path, ok := w.Profile(scheduler)
			if !ok {
				t.Fatalf("%s: no profile for %s", file, scheduler)
			}
			named[filepath.Clean(path)] = true
			config := loadProfile(t, path)
			if len(config.Profiles) != 1 || config.Profiles[0].SchedulerName != scheduler {
				t.Errorf("%s: spec.profiles[%s]: %s is not of that scheduler alone", file, scheduler, path)
			}
		}
	}
	for _, file := range shipped(t, "KubeSchedulerConfiguration") {
		if !named[filepath.Clean(file)] {
			t.Errorf("No workload names %s", file)
		}
	}
}

// TestPlacement has the simulator place workloads with the profiles that they name:
// the plugins understand what a plan says, and there is room for it.
func TestPlacement(t *testing.T) {
	t.Run("smoke.yaml", func(t *testing.T) {
		plan, placed := place(t, "smoke.yaml")
		if len(placed) != len(plan.Arrivals) {
			t.Errorf("%d of %d pods are placed", len(placed), len(plan.Arrivals))
		}
		graph, err := callgraph.Read(plan.Deployments, plan.Services)
		if err != nil {
			t.Fatal(err)
		}
		share, err := graph.Share(callgraph.Placement{Pods: placed, Nodes: plan.Nodes}, callgraph.PreferSameNode)
		if err != nil {
			t.Fatal(err)
		}
		// Two of three calls of cart leave for the one pod of db, and two nodes of a zone
		// take a pod each, where nobody knows of the other.
		if share.WithinNode < 0.6 {
			t.Errorf("%.2f of the calls stay within a node: Colocation did not see who calls whom", share.WithinNode)
		}
	})
	for file, wantPart := range map[string]float64{"gpu-mix.yaml": 0.93, "gpu-sizes.yaml": 0.985} {
		t.Run(file, func(t *testing.T) {
			plan, placed := place(t, file)
			var devices, asked, given int64
			for _, group := range plan.Nodes {
				count, err := strconv.ParseInt(group.Labels[device.DefaultNodeKeys().Count], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				devices += count * device.MilliPerDevice
			}
			milli := func(pod *corev1.Pod) int64 {
				group := plan.Group(pod.Name)
				return int64(group.Devices) * group.Milli
			}
			for _, arrival := range plan.Arrivals {
				asked += milli(arrival.Pod)
			}
			for i := range placed {
				given += milli(&placed[i])
			}
			if load := float64(asked) / float64(devices); load < 0.999 || load > 1.001 {
				t.Errorf("The pods ask for %.4f of all devices, want all", load)
			}
			if part := float64(given) / float64(devices); part < wantPart {
				t.Errorf("%.3f of all devices are given out, want %.3f, which FragmentationGradient packs", part, wantPart)
			}
		})
	}
}

// place returns the plan of a file, and its pods as the simulator has placed them.
func place(t *testing.T, file string) (*Plan, []corev1.Pod) {
	t.Helper()
	w, err := Read(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := w.Plan(Shares)
	if err != nil {
		t.Fatal(err)
	}
	profile, _ := w.Profile(names.Scheduler)
	objects := &cluster.Cluster{}
	for _, object := range append(objectsOf(plan), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}) {
		if err := objects.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	e, err := engine.New(t.Context(), engine.Options{Config: loadProfile(t, profile)}, objects)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	var placed []corev1.Pod
	for _, arrival := range plan.Arrivals {
		pod := arrival.Pod.DeepCopy()
		pod.Namespace, pod.UID = namespace, types.UID("uid-of-"+pod.Name)
		pod.Spec.SchedulerName = names.Scheduler
		pod.Status.Phase = corev1.PodPending
		result, err := e.Schedule(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if result.Node == "" {
			continue
		}
		pod.Spec.NodeName = result.Node
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		placed = append(placed, *pod)
	}
	return plan, placed
}

// objectsOf returns what is there before the first pod arrives, in the namespace of a
// run.
func objectsOf(plan *Plan) []runtime.Object {
	var objects []runtime.Object
	for i := range plan.Nodes {
		plan.Nodes[i].UID = types.UID("uid-of-" + plan.Nodes[i].Name)
		objects = append(objects, &plan.Nodes[i])
	}
	for i := range plan.Deployments {
		plan.Deployments[i].Namespace = namespace // for callgraph
	}
	for i := range plan.Services {
		plan.Services[i].Namespace = namespace
		plan.Services[i].UID = types.UID("uid-of-" + plan.Services[i].Name)
		objects = append(objects, &plan.Services[i])
	}
	for i := range plan.Existing {
		plan.Existing[i].Namespace = namespace
		plan.Existing[i].UID = types.UID("uid-of-" + plan.Existing[i].Name)
		objects = append(objects, &plan.Existing[i])
	}
	return objects
}
