// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpuchaos breaks what GPUDevice relies on, on a real API server, where that
// shows what test/interleaving's models cannot: how large an object may be, what a
// request that hangs keeps, what /readyz, events and metrics say, whom the lease
// waits for, and what other schedulers do. pkg/oracle says from the API alone whether
// a device was allocated more than once. What kills and restarts do is test/failure's.
package gpuchaos

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

const (
	gpuProfile = gpuchurn.Profile
	namespace  = gpuchurn.Namespace
)

// shared is the control plane of TestProcesses.
var shared *framework.Shared

// TestProcesses are the tests that leave nothing behind which others would meet.
func TestProcesses(t *testing.T) {
	shared = framework.NewShared(t, framework.Options{}, func(c *framework.Cluster) { c.ApplyManifests(t, "manifests/base") })
	t.Run("prepared before ready", preparedBeforeReady)
	t.Run("last Binding", lastBinding)
	t.Run("race of two", raceOfTwo)
	t.Run("hanging requests", hangingRequests)
	t.Run("renamed profile", renamedProfile)
	t.Run("two without election", twoWithoutElection)
	t.Run("faulty network", faultyNetwork)
}

// startPool returns the shared control plane with such nodes.
func startPool(t *testing.T, nodes, devices int) *framework.Cluster {
	t.Helper()
	return shared.Use(t, gpuchurn.Nodes(nodes, devices))
}

// forceDelete removes a pod at once.
func forceDelete(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	if err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
}

// requireRight waits until n pods are bound and the others wait for a reason, and fails
// if anything is wrong, or if the scheduler counts otherwise than the API does.
func requireRight(t *testing.T, c *framework.Cluster, s *framework.Scheduler, n int) {
	t.Helper()
	if r, _ := gpuchurn.WaitSettled(t, c, n); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	gpuchurn.RequireView(t, c, s, names.Scheduler)
}

// requireMetric waits until a counter has reached a value.
func requireMetric(t *testing.T, s *framework.Scheduler, name string, least float64) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%s to reach %v", name, least), func() (bool, error) {
		got := metric(t, s, name)
		return got >= least, fmt.Errorf("it is %v", got)
	})
}

func metric(t *testing.T, s *framework.Scheduler, name string) float64 {
	t.Helper()
	values, err := oracle.Metric(s.Metrics(t), name, "profile")
	if err != nil {
		t.Fatal(err)
	}
	return values[""]
}

// warned returns the events of a reason, by the name of the pod that they are on.
func warned(t *testing.T, c *framework.Cluster, reason string) map[string][]string {
	t.Helper()
	events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string][]string{}
	for i := range events.Items {
		name := events.Items[i].InvolvedObject.Name
		notes[name] = append(notes[name], events.Items[i].Message)
	}
	return notes
}

// requireWarned waits until each of the pods has an event of the reason that
// contains text.
func requireWarned(t *testing.T, c *framework.Cluster, reason, text string, pods ...string) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("events %s on %d pods", reason, len(pods)), func() (bool, error) {
		notes := warned(t, c, reason)
		for _, pod := range pods {
			if !strings.Contains(strings.Join(notes[pod], "\n"), text) {
				return false, fmt.Errorf("pod %s has the events %q", pod, notes[pod])
			}
		}
		return true, nil
	})
}
