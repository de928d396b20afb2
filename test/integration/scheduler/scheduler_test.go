// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler shows what the berth-scheduler binary does apart from any
// one plugin, as a process beside the stock scheduler.
package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// shared is the control plane of [TestInstalled].
var shared *framework.Shared

// TestInstalled runs on one control plane what needs no more than that Berth is installed.
func TestInstalled(t *testing.T) {
	shared = framework.NewShared(t, framework.Options{}, func(c *framework.Cluster) { c.ApplyManifests(t, "manifests/base") })
	t.Run("a pod waits for its scheduler", podWaitsForItsScheduler)
	t.Run("keys without effect are reported", keysWithoutEffectAreReported)
	t.Run("batching stays on", batchingStaysOn)
	t.Run("a standby names the holder", standbyNamesTheHolder)
	t.Run("the API server is down", apiServerIsDown)
}

// podWaitsForItsScheduler has a stock scheduler run while a pod names one
// that does not; the pod is Pending until that one is started.
func podWaitsForItsScheduler(t *testing.T) {
	c := shared.Use(t, localcluster.FakeNodes(2))
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})

	c.CreatePod(t, framework.Pod(metav1.NamespaceDefault, "waiting", names.Scheduler))
	c.CreatePod(t, framework.Pod(metav1.NamespaceDefault, "stock", corev1.DefaultSchedulerName))
	// The stock scheduler sees pods in order, so once the second is placed it has
	// had its chance at the first.
	c.WaitForPodRunning(t, "default", "stock")
	waiting, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "waiting", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if waiting.Spec.NodeName != "" || waiting.Status.Phase != corev1.PodPending || framework.PodScheduledCondition(waiting) != nil {
		t.Fatalf("a pod whose scheduler does not run has node %q, phase %s and the condition %v",
			waiting.Spec.NodeName, waiting.Status.Phase, framework.PodScheduledCondition(waiting))
	}

	c.StartBerthScheduler(t, "config/berth-scheduler/all-plugins.yaml", framework.SchedulerOptions{LeaderElect: true})
	c.WaitForPodRunning(t, "default", "waiting")
	if by := scheduledBy(t, c, "waiting"); by != names.Scheduler {
		t.Errorf("the pod was placed by %q", by)
	}
}

// keysWithoutEffectAreReported: a pod with keys that have no effect gets one
// Warning event that names them and the way out, and runs.
func keysWithoutEffectAreReported(t *testing.T) {
	c := shared.Use(t, localcluster.FakeNodes(1))
	c.StartBerthScheduler(t, "config/berth-scheduler/gpu.yaml", framework.SchedulerOptions{})

	// The profile runs GPUDevice alone.
	const runsNone = `the scheduler's profile "berth-scheduler" does not run `
	tests := []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		reason      string
		want        []string
	}{
		{
			name: "unknown", annotations: map[string]string{names.Domain + "/no-such-key": "x"},
			reason: unknownkeys.Reason, want: []string{names.Domain + "/no-such-key", "correct the spelling"},
		},
		{
			name: "typo", annotations: map[string]string{names.Domain + "/colocate-whit": "x"},
			reason: unknownkeys.Reason, want: []string{names.Domain + "/colocate-whit", "did you mean " + names.ColocateWithAnnotation + "?"},
		},
		{
			name: "without-colocation", annotations: map[string]string{names.ColocateWithAnnotation: "db"},
			reason: unknownkeys.ReasonIgnored, want: []string{names.ColocateWithAnnotation, runsNone + "Colocation"},
		},
		{
			name: "without-coscheduling", labels: map[string]string{v1alpha1.PodGroupLabel: "gang"},
			reason: unknownkeys.ReasonIgnored, want: []string{v1alpha1.PodGroupLabel, runsNone + "Coscheduling"},
		},
		{
			name: "annotation-as-label", labels: map[string]string{names.GPUModelAnnotation: "A100"},
			reason: unknownkeys.Reason, want: []string{names.GPUModelAnnotation, "metadata.annotations"},
		},
		{
			name: "label-as-annotation", annotations: map[string]string{v1alpha1.PodGroupLabel: "gang"},
			reason: unknownkeys.Reason, want: []string{v1alpha1.PodGroupLabel, "metadata.labels"},
		},
		{
			name: "domain-like-ours", annotations: map[string]string{"berth.io/gpu-model": "A100"},
			reason: unknownkeys.Reason, want: []string{"berth.io/gpu-model", "did you mean " + names.GPUModelAnnotation + "?"},
		},
		{
			name: "capitals", annotations: map[string]string{"Berth.dev/gpu-model": "A100"},
			reason: unknownkeys.Reason, want: []string{"Berth.dev/gpu-model", "did you mean " + names.GPUModelAnnotation + "?"},
		},
	}
	for _, tt := range tests {
		p := framework.Pod(metav1.NamespaceDefault, tt.name, names.Scheduler)
		p.Labels, p.Annotations = tt.labels, tt.annotations
		c.CreatePod(t, p)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// None of it keeps a pod from running.
			c.WaitForPodRunning(t, "default", tt.name)
			var found []eventsv1.Event
			framework.WaitForCondition(t, framework.WaitTimeout, "the event "+tt.reason, func() (bool, error) {
				events, err := c.Client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "type=Warning,regarding.name=" + tt.name})
				if err != nil {
					return false, err
				}
				found = events.Items
				return len(found) > 0, nil
			})
			if len(found) != 1 || found[0].Reason != tt.reason {
				t.Fatalf("want one event %s, got %v", tt.reason, found)
			}
			for _, want := range tt.want {
				if !strings.Contains(found[0].Note, want) {
					t.Errorf("want %q in %q", want, found[0].Note)
				}
			}
		})
	}
}

// batchingStaysOn runs a workload of one pod per node with LabelPresence on:
// the scheduler reuses results, which it never does for a profile with a plugin
// that does not sign pods.
func batchingStaysOn(t *testing.T) {
	const nodes = 30
	c := shared.Use(t, localcluster.FakeNodes(nodes))
	c.Kubectl(t, "label", "nodes", "--all", "selectable=")
	for i := range nodes {
		p := framework.Pod(metav1.NamespaceDefault, fmt.Sprintf("p%d", i), names.Scheduler)
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
		c.CreatePod(t, p)
	}
	// The pods are there before the scheduler: it takes them one after the other,
	// and a result may be reused only by the very next cycle.
	scheduler := c.StartBerthScheduler(t, "config/berth-scheduler/batching.yaml", framework.SchedulerOptions{
		Args: []string{"--feature-gates=OpportunisticBatching=true"},
	})
	for i := range nodes {
		c.WaitForPodScheduled(t, "default", fmt.Sprintf("p%d", i))
	}
	used := 0
	for line := range strings.Lines(scheduler.Metrics(t)) {
		if m := hintUsed.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			used += n
		}
	}
	t.Logf("%d of %d pods were placed by a hint from the one before", used, nodes)
	if used < nodes/2 {
		t.Errorf("hints were used for %d of %d pods: %s", used, nodes, metricLines(scheduler.Metrics(t), "scheduler_batch_"))
	}
}

var hintUsed = regexp.MustCompile(`^scheduler_batch_attempts_total\{.*result="hint_used"\} (\d+)`)

// TestWrongConfigurationEndsTheProcess: the table of wrong files is tested in
// cmd/berth-scheduler; here a real process ends with code 1 and says so on its
// standard error, one error a line.
func TestWrongConfigurationEndsTheProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binaries: skipped under -short")
	}
	file := filepath.Join(framework.Root(), "cmd/berth-scheduler/testdata/wrong/several-errors.yaml")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	process := framework.StartProcess(t, framework.BerthScheduler, "--config="+file)
	if code := process.Wait(t, framework.WaitTimeout); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"several-errors.yaml", "rules[0].presence: Required value", "rules[1].labels"} {
		if !strings.Contains(process.Output(), want) {
			t.Errorf("want %q in\n%s", want, process.Output())
		}
	}
}

// scheduledBy returns who reported the pod's Scheduled event.
func scheduledBy(t *testing.T, c *framework.Cluster, name string) string {
	t.Helper()
	var by string
	framework.WaitForCondition(t, framework.WaitTimeout, "the Scheduled event of "+name, func() (bool, error) {
		events, err := c.Client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{
			FieldSelector: "regarding.name=" + name + ",reason=Scheduled",
		})
		if err != nil || len(events.Items) == 0 {
			return false, err
		}
		by = events.Items[0].ReportingController
		return true, nil
	})
	return by
}

// metricLines returns the lines of a metrics page that begin with prefix.
func metricLines(page, prefix string) string {
	var lines []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
