// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// writes returns what the scheduler wrote to pods, as "verb resource/subresource"
// with the answer's code, by the name of the pod; and for each Binding whether it
// had the record of the devices in it.
func writes(t *testing.T, c *framework.Cluster) map[string][]string {
	t.Helper()
	writes := map[string][]string{}
	for _, event := range c.AuditEvents(t, framework.WritesToPods(names.Scheduler, namespace)) {
		ref := event.ObjectRef
		write := fmt.Sprintf("%s %s/%s %d", event.Verb, ref.Resource, ref.Subresource, event.ResponseStatus.Code)
		if event.RequestObject != nil && strings.Contains(string(event.RequestObject.Raw), names.GPUAssignedAnnotation) {
			write += " with the record"
		}
		writes[ref.Name] = append(writes[ref.Name], write)
	}
	return writes
}

// TestOneWrite places pods of every shape in quiet and counts what the scheduler
// writes to them: the Binding, with node and devices, and nothing else.
func TestOneWrite(t *testing.T) {
	const pods = 150
	c := framework.Start(t, framework.Options{Nodes: gpuchurn.Nodes(40, 4), Audit: true})
	c.ApplyManifests(t, "manifests/base")
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	rng := rand.New(rand.NewPCG(6, 0))
	want := map[string][]string{}
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		c.CreatePod(t, gpuchurn.RandomPod(rng, name))
		want[name] = []string{"create pods/binding 201 with the record"}
	}
	// One that finds no room is told so, in its status; that is a write more.
	c.CreatePod(t, gpuchurn.Pod("too-many", gpuchurn.Container("main", "8000", "")))
	want["too-many"] = []string{"patch pods/status 200"}
	c.WaitForPod(t, namespace, "too-many", "refused", func(pod *corev1.Pod) bool {
		condition := framework.PodScheduledCondition(pod)
		return condition != nil && condition.Status == corev1.ConditionFalse
	})

	requireRight(t, c, s, pods)
	if diff := cmp.Diff(want, writes(t, c)); diff != "" {
		t.Errorf("Unexpected writes to pods (-want,+got):\n%s", diff)
	}
}
