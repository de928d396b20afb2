// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// nowhere is a pod that asks for a share, and that no node takes.
func nowhere(name string) *corev1.Pod {
	pod := gpuchurn.SharePod(name, "500")
	pod.Spec.NodeSelector = map[string]string{"example.com/no-node": "has-this"}
	return pod
}

// fat is such a pod of about so many bytes.
func fat(name string, size int) *corev1.Pod {
	pod := nowhere(name)
	pod.Spec.Containers[0].Args = []string{strings.Repeat("x", size)}
	return pod
}

// largest returns the most bytes with which fat can be created; pods of that name length.
func largest(t *testing.T, c *framework.Cluster) int {
	t.Helper()
	low, high := 1_560_000, 1_580_000
	for low+4 < high {
		size := (low + high) / 2
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), fat(fmt.Sprintf("try%05d", size%100_000), size), metav1.CreateOptions{})
		switch {
		case err == nil:
			low = size
		case strings.Contains(err.Error(), "too large"):
			high = size
		default:
			t.Fatal(err)
		}
	}
	return low
}

// lateBinding sends what a former process may have on its way: the smallest Binding that
// GPUDevice can send, for the version of the pod.
func lateBinding(t *testing.T, c *framework.Cluster, pod *corev1.Pod, node, record string) error {
	t.Helper()
	return c.Client.CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Annotations: map[string]string{
			names.GPUAssignedAnnotation: record, names.GPUDevicesAnnotationPrefix + "main": "0",
		}},
		Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// unchanged reports whether the API server has the version of the pod still.
func unchanged(t *testing.T, c *framework.Cluster, pod *corev1.Pod) (current *corev1.Pod, same bool) {
	t.Helper()
	current, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return current, current.ResourceVersion == pod.ResourceVersion
}

// noneIsNamed fails if an event of a pod names one of others.
func noneIsNamed(t *testing.T, c *framework.Cluster, pod string, others ...string) {
	t.Helper()
	events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		for _, other := range others {
			if strings.Contains(events.Items[i].Message, other) {
				t.Errorf("an event of pod %s names %s: %s", pod, other, events.Items[i].Message)
			}
		}
	}
}

// TestStrangersPods starts a scheduler beside pods, all of one tenant, that it cannot do
// with as with others: so large that nothing, or next to nothing, can be written to them, being deleted without
// end, with requests and records that cannot be read. It is ready, others' pods
// are placed, their events name none of these. And whatever a former process has on its way for
// one of the large pods is refused: it was fenced, or is too large for a Binding too.
func TestStrangersPods(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: gpuchurn.Nodes(2, 2)})
	c.ApplyManifests(t, "manifests/base")
	pods := c.Client.CoreV1().Pods(namespace)
	most := largest(t, c)
	var large []*corev1.Pod
	for less := 0; less <= 192; less += 24 {
		large = append(large, c.CreatePod(t, fat(fmt.Sprintf("fat%05d", less), most-less)))
	}
	// Some have a long message that a Binding drops: that is smaller than the pod is now.
	for i, less := range []int{2060, 2100} {
		pod := c.CreatePod(t, fat(fmt.Sprintf("msg%05d", i), most-less))
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":%q}]}}`, strings.Repeat("m", 1960))
		told, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
		large = append(large, told)
	}
	deleting := nowhere("deleting")
	deleting.Finalizers = []string{"example.com/without-end"}
	c.CreatePod(t, deleting)
	if err := pods.Delete(t.Context(), deleting.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
	unreadable := gpuchurn.SharePod("unreadable", "1500")
	c.CreatePod(t, unreadable)
	unrecorded := c.CreatePod(t, gpuchurn.SharePod("unrecorded", "500"))
	if err := lateBinding(t, c, unrecorded, gpuchurn.Nodes(2, 2)[1].Name, "what is this"); err != nil {
		t.Fatal(err)
	}

	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	for i := range 4 {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("innocent-%d", i), "500"))
	}
	for i := range 4 {
		c.WaitForPodScheduled(t, namespace, fmt.Sprintf("innocent-%d", i))
		noneIsNamed(t, c, fmt.Sprintf("innocent-%d", i), "fat0", "try", "msg0", deleting.Name, unreadable.Name, unrecorded.Name)
	}

	usual, smallest, kept := 0, 0, 0
	for _, pod := range large {
		err := lateBinding(t, c, pod, "n", "main=0:1m:1Mi")
		current, same := unchanged(t, c, pod)
		hasToken := false
		for _, condition := range current.Status.Conditions {
			hasToken = hasToken || condition.Type == names.GPUFenceCondition
		}
		switch {
		case err == nil:
			t.Fatalf("a Binding for version %s of pod %s was written: the pod is at version %s", pod.ResourceVersion, pod.Name, current.ResourceVersion)
		case same && strings.Contains(err.Error(), "too large"):
			kept++
			requireWarned(t, c, "GPUPodTooLarge", "as large as the API server can store", pod.Name)
		case same || !apierrors.IsConflict(err):
			t.Errorf("pod %s: the Binding was answered %v, the version is unchanged: %t", pod.Name, err, same)
		case hasToken:
			usual++
		default:
			smallest++
		}
	}
	t.Logf("of %d large pods %d were fenced as any, %d by the smallest write, and %d are too large for that", len(large), usual, smallest, kept)
	if usual == 0 || smallest < 3 || kept == 0 {
		t.Error("want some of each kind, and the two with a message by the smallest write")
	}
	values, err := oracle.Metric(s.Metrics(t), "berth_gpudevice_unfenced_pods", "reason")
	if err != nil || values["TooLarge"] < float64(kept) || values["Refused"] != 0 {
		t.Errorf("berth_gpudevice_unfenced_pods is %v (%v), want %d or more that are too large", values, err, kept)
	}
	if err := s.Ready(t); err != nil {
		t.Error(err)
	}
}

// hangingRequests lets one request of each kind that a scheduler sends hang, and the
// connection with it: a Binding, the write of a pod's status, the renewal of the lease, and any
// request for a single namespace. All other pods are placed meanwhile.
func hangingRequests(t *testing.T) {
	const others = 30
	c := startPool(t, 2, 4)
	hang := make(chan struct{})
	var bindings, statuses, renewals atomic.Int64
	var leads atomic.Bool
	stuck := c.CreatePod(t, nowhere("stuck"))
	proxy := faultproxy.Start(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			if b.Pod == "hung" {
				bindings.Add(1)
				<-hang
			}
			return faultproxy.PassOn(b)
		},
		Answer: func(r *http.Request) *faultproxy.Answer {
			switch {
			case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/"+stuck.Name+"/status"):
				statuses.Add(1)
			case leads.Load() && r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/leases/"):
				renewals.Add(1)
			case path.Dir(r.URL.Path) != "/api/v1/namespaces":
				return nil
			}
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			return nil
		},
	})
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{
		Kubeconfig: proxy.Kubeconfig, LeaderElect: true,
		// A leader whose renewals hang leads until the deadline, as with stock.
		Args: []string{"--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m", "--leader-elect-retry-period=1s"},
	})
	leads.Store(true)
	c.CreatePod(t, gpuchurn.SharePod("hung", "100"))
	framework.WaitForCondition(t, framework.WaitTimeout, "one of each to hang", func() (bool, error) {
		b, w, l := bindings.Load(), statuses.Load(), renewals.Load()
		return b > 0 && w > 0 && l > 0, fmt.Errorf("hanging: %d Bindings, %d writes of the status, %d renewals", b, w, l)
	})
	for i := range others {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("other-%d", i), "50"))
	}
	for i := range others {
		c.WaitForPodScheduled(t, namespace, fmt.Sprintf("other-%d", i))
	}
	if n := bindings.Load(); n != 1 {
		t.Errorf("the Binding that hangs was sent %d times", n)
	}
	requireWarned(t, c, "GPUPodNotFenced", "no answer within", stuck.Name)
	close(hang)
	c.WaitForPodScheduled(t, namespace, "hung")
	forceDelete(t, c, stuck.Name)
	requireRight(t, c, s, others+1)
}

// renamedProfile ends a leader while a Binding is on its way; the next one serves another
// schedulerName. What is on its way is refused.
func renamedProfile(t *testing.T) {
	c := startPool(t, 1, 1)
	var onItsWay atomic.Pointer[faultproxy.Binding]
	old := startBehind(t, c, profileNamed(t, "the-old-name"), faultproxy.Hooks{Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
		onItsWay.CompareAndSwap(nil, b)
		return nil
	}})
	c.CreatePod(t, by("the-old-name", gpuchurn.SharePod("late", "1000")))
	framework.WaitForCondition(t, framework.WaitTimeout, "the Binding", func() (bool, error) { return onItsWay.Load() != nil, nil })
	old.Kill()
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	c.CreatePod(t, gpuchurn.SharePod("next", "1000"))
	c.WaitForPodScheduled(t, namespace, "next")
	if answer := faultproxy.PassOn(onItsWay.Load()); answer == nil || answer.Code != http.StatusConflict {
		t.Errorf("the Binding of the former leader was answered %+v, want %d", answer, http.StatusConflict)
	}
	forceDelete(t, c, "late")
	requireRight(t, c, s, 1)
}

// twoWithoutElection starts a second process that serves the same pods. The first one
// finds its token on a pod, and gives no share from then on.
func twoWithoutElection(t *testing.T) {
	c := startPool(t, 1, 4)
	first := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	c.CreatePod(t, gpuchurn.SharePod("of-the-first", "500"))
	c.WaitForPodScheduled(t, namespace, "of-the-first")
	c.CreatePod(t, nowhere("waits"))
	c.WaitForPodUnschedulable(t, namespace, "waits")
	second := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	requireMetric(t, first, "berth_gpudevice_replaced", 1)
	requireWarned(t, c, "GPUSchedulerReplaced", "until it is restarted", "waits")
	framework.WaitForCondition(t, framework.WaitTimeout, "/readyz of the first process to say that it was replaced", func() (bool, error) {
		err := first.Ready(t)
		return err != nil && strings.Contains(err.Error(), "another scheduler process has taken over"), err
	})
	forceDelete(t, c, "waits")
	for i := range 6 {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("of-the-second-%d", i), "500"))
	}
	for i := range 6 {
		c.WaitForPodScheduled(t, namespace, fmt.Sprintf("of-the-second-%d", i))
	}
	requireRight(t, c, second, 7)
	if replaced := metric(t, second, "berth_gpudevice_replaced"); replaced != 0 {
		t.Errorf("the second process takes itself for replaced: %v", replaced)
	}
	second.Kill()
	c.CreatePod(t, gpuchurn.SharePod("later", "100"))
	again := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	c.WaitForPodScheduled(t, namespace, "later")
	requireRight(t, c, again, 8)
}
