// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// writesBy returns what a user wrote to pods, as "verb resource/subresource" with
// the answer's code, by the name of the pod; and for each Binding whether it had
// the record of the devices in it.
func writesBy(t *testing.T, c *framework.Cluster, user string) map[string][]string {
	t.Helper()
	file, err := os.Open(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	writes := map[string][]string{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("reading the audit log: %v", err)
		}
		ref := event.ObjectRef
		if event.User.Username != user || ref == nil || ref.Resource != "pods" || ref.Namespace != namespace {
			continue
		}
		switch event.Verb {
		case "get", "list", "watch":
			continue
		}
		write := fmt.Sprintf("%s %s/%s %d", event.Verb, ref.Resource, ref.Subresource, event.ResponseStatus.Code)
		if event.RequestObject != nil && strings.Contains(string(event.RequestObject.Raw), names.GPUAssignedAnnotation) {
			write += " with the record"
		}
		writes[ref.Name] = append(writes[ref.Name], write)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return writes
}

// TestOneWrite places pods of every shape in quiet and counts what the scheduler
// writes to them: the Binding, with node and devices, and nothing else.
func TestOneWrite(t *testing.T) {
	const pods = 150
	c := framework.Start(t, framework.Options{Nodes: sharedNodes(40, 4), Audit: true})
	c.ApplyManifests(t, "manifests/base")
	watch := startWatch(t, c)
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	rng := rand.New(rand.NewPCG(6, 0))
	// The first pod waits when the scheduler begins to give devices away, and is fenced
	// against Bindings of a former one.
	create(t, c, sharePod("first", "100"))
	c.WaitForPodScheduled(t, namespace, "first")
	want := map[string][]string{"first": {"patch pods/status 200", "create pods/binding 201 with the record"}}
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		create(t, c, randomPod(rng, name))
		want[name] = []string{"create pods/binding 201 with the record"}
	}
	// One that finds no room is told so, in its status; that is a write more.
	create(t, c, podOf("too-many", container("main", "8000", "")))
	want["too-many"] = []string{"patch pods/status 200"}
	c.WaitForPod(t, namespace, "too-many", "refused", func(pod *corev1.Pod) bool {
		condition := framework.PodScheduledCondition(pod)
		return condition != nil && condition.Status == corev1.ConditionFalse
	})

	requireRight(t, c, s, pods+1)
	if diff := cmp.Diff(want, writesBy(t, c, "system:serviceaccount:"+names.Namespace+":"+names.Scheduler)); diff != "" {
		t.Errorf("Unexpected writes to pods (-want,+got):\n%s", diff)
	}
	violations, versions, bindings := watch.history.Violations()
	if len(violations) > 0 {
		t.Error(violations)
	}
	if bindings != pods+1 || versions < 2*pods {
		t.Errorf("the watch showed %d versions and %d bindings of %d pods", versions, bindings, pods)
	}
}
