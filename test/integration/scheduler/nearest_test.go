// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const gpuOnlyProfile = "config/berth-scheduler/gpu.yaml"

// TestNearestMiss has pods wait for causes of Berth's plugins and reads which node the
// condition names, and what it lacks; the same stands in the event.
func TestNearestMiss(t *testing.T) {
	small := framework.GPUNode("gpu-small", "NVIDIA-L4", 1, 24576)
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{
		framework.Node("plain", nil), small, framework.GPUNode("gpu-large", "NVIDIA-A100-SXM4-80GB", 2, 81920),
	}})
	c.ApplyManifests(t, "manifests/base")
	c.StartBerthScheduler(t, gpuOnlyProfile, framework.SchedulerOptions{})
	for i, milli := range []string{"600", "700", "800"} {
		c.PlacePod(t, framework.SharePod("holder-"+strconv.Itoa(i), milli))
	}
	memory := framework.SharePod("memory", "100")
	memory.Spec.Containers[0].Resources.Limits[names.GPUMemoryResource] = resource.MustParse("60Gi")
	busy := framework.SharePod("busy", "200")
	busy.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
	for _, tt := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{framework.SharePod("whole", "1000"), `nearest: node gpu-(small|large), device [01] has 400m free, and the pod requests 1000m\.`},
		{memory, `nearest: node gpu-large, device [01] has \d+[GM]i free, and the pod requests 60Gi\.`},
		{framework.SharePod("pair", "2000"), `nearest: node gpu-large, 0 of its 2 devices are free, and the pod requests 2\.`},
		{busy, `nearest: node gpu-(small|large), the pod asks for 1k of cpu, and 32 of 32 are free\.`},
	} {
		c.CreatePod(t, tt.pod)
		want := regexp.MustCompile(tt.want)
		pod := c.WaitForPod(t, tt.pod.Namespace, tt.pod.Name, "a condition that matches "+tt.want, func(p *corev1.Pod) bool {
			condition := framework.PodScheduledCondition(p)
			return condition != nil && want.MatchString(condition.Message)
		})
		text := want.FindString(framework.PodScheduledCondition(pod).Message)
		t.Logf("%s: %s", tt.pod.Name, framework.PodScheduledCondition(pod).Message)
		c.WaitForEvent(t, pod.Namespace, pod.Name, "FailedScheduling", text)
	}
}

// waitingRounds is how often all Pending pods are tried again.
const waitingRounds = 4

// TestWritesOfPendingPods has many pods wait that nearly fit, frees room for one of them
// several times, upon which all are tried again, and counts what the scheduler writes: a
// message that names a node costs no writes beside those of stock, but for the few a
// minute by which numbers are brought up to date. BERTH_LONG=1 makes it 5,000 pods.
func TestWritesOfPendingPods(t *testing.T) {
	count := 300
	if framework.Long() {
		count = 5000
	}
	var stock, berth writes
	t.Run("stock", func(t *testing.T) {
		stock = countWrites(t, count, "", func(name string, milli int64) *corev1.Pod {
			pod := framework.Pod(metav1.NamespaceDefault, name, corev1.DefaultSchedulerName)
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli*cpuPerDevice, resource.DecimalSI)}
			return pod
		})
	})
	t.Run("berth", func(t *testing.T) {
		berth = countWrites(t, count, gpuOnlyProfile, func(name string, milli int64) *corev1.Pod {
			return framework.SharePod(name, strconv.FormatInt(milli, 10))
		})
	})
	t.Logf("%d Pending pods, %d rounds: stock %+v, Berth %+v", count, waitingRounds, stock, berth)
	if berth.named < count-waitingRounds {
		t.Errorf("%d of %d Pending pods are told of a node", berth.named, count)
	}
	// What the limit of renewals lets through in this time, with what it starts with.
	renewals := int(berth.took.Minutes()*6) + 7
	if berth.patches > stock.patches+renewals {
		t.Errorf("%d patches of pods/status in the rounds, want at most stock's %d and %d renewals", berth.patches, stock.patches, renewals)
	}
	if berth.events > stock.events+waitingRounds {
		t.Errorf("%d writes of events in the rounds, want at most stock's %d", berth.events, stock.events)
	}
}

// cpuPerDevice is how many thousandths of a CPU stand for one of a device where stock's
// scheduler counts: a node of kwok has 32 CPUs.
const cpuPerDevice = 32

// writes are what a scheduler has written while all pods waited.
type writes struct {
	patches, events, attempts, named int
	took                             time.Duration
}

// countWrites fills ten nodes, has so many pods wait, and ends one pod after the other.
func countWrites(t *testing.T, count int, profile string, newPod func(name string, milli int64) *corev1.Pod) writes {
	t.Helper()
	var nodes []corev1.Node
	for i := range 10 {
		nodes = append(nodes, framework.GPUNode(fmt.Sprintf("gpu-%d", i), "NVIDIA-L4", 1, 24576))
	}
	c := framework.Start(t, framework.Options{Nodes: nodes, Audit: true})
	c.ApplyManifests(t, "manifests/base")
	user, scheduler := "system:kube-scheduler", (*framework.Scheduler)(nil)
	if profile == "" {
		scheduler = c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	} else {
		user = "system:serviceaccount:" + names.Namespace + ":" + names.Scheduler
		scheduler = c.StartBerthScheduler(t, profile, framework.SchedulerOptions{})
	}
	// Each node is left with 100, 110, … thousandths.
	for i := range 10 {
		c.PlacePod(t, newPod(fmt.Sprintf("holder-%d", i), int64(900-10*i)))
	}
	var creating sync.WaitGroup
	for worker := range 10 {
		creating.Go(func() {
			for i := worker; i < count; i += 10 {
				if _, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), newPod(fmt.Sprintf("waiting-%d", i), 600), metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	creating.Wait()
	pending := func() (waiting, named int) {
		list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if condition := framework.PodScheduledCondition(&list.Items[i]); condition != nil {
				waiting++
				if strings.Contains(condition.Message, " nearest: node ") {
					named++
				}
			}
		}
		return waiting, named
	}
	framework.WaitForCondition(t, 10*framework.WaitTimeout, "all pods to be Unschedulable", func() (bool, error) {
		waiting, _ := pending()
		return waiting == count, fmt.Errorf("%d of %d are", waiting, count)
	})
	settle := func() int { return settled(t, c, user) }
	before, attempts, start := settle(), unschedulable(t, scheduler), time.Now()
	for round := range waitingRounds {
		tried := unschedulable(t, scheduler)
		c.Kubectl(t, "delete", "pod", fmt.Sprintf("holder-%d", round), "--wait=true")
		framework.WaitForCondition(t, 10*framework.WaitTimeout, "the pods to be tried again", func() (bool, error) {
			again := unschedulable(t, scheduler) - tried
			return again >= count-round-1, fmt.Errorf("%d attempts", again)
		})
	}
	w := writes{attempts: unschedulable(t, scheduler) - attempts}
	settle()
	w.took = time.Since(start)
	_, w.named = pending()
	for _, event := range audited(t, c, user)[before:] {
		switch ref := event.ObjectRef; {
		case ref.Resource == "pods" && ref.Subresource == "status":
			w.patches++
		case ref.Resource == "events":
			w.events++
		}
	}
	return w
}

// audited are the writes of a user in the audit log.
func audited(t *testing.T, c *framework.Cluster, user string) []auditv1.Event {
	t.Helper()
	return c.AuditEvents(t, func(event *auditv1.Event) bool {
		return event.User.Username == user && event.ObjectRef != nil && (event.Verb == "create" || event.Verb == "patch" || event.Verb == "update")
	})
}

// settled waits until the scheduler has written nothing for a while, and returns how much
// it has.
func settled(t *testing.T, c *framework.Cluster, user string) int {
	t.Helper()
	last, since := -1, time.Now()
	framework.WaitForCondition(t, 10*framework.WaitTimeout, "the scheduler to have written everything", func() (bool, error) {
		if n := len(audited(t, c, user)); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 3*time.Second, nil
	})
	return last
}

// unschedulable returns how many attempts have found no node.
func unschedulable(t *testing.T, scheduler *framework.Scheduler) int {
	t.Helper()
	total := 0
	for line := range strings.Lines(scheduler.Metrics(t)) {
		if strings.HasPrefix(line, "scheduler_schedule_attempts_total{") && strings.Contains(line, `result="unschedulable"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			total += int(n)
		}
	}
	return total
}
