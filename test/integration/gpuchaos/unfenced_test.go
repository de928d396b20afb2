// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
	c := startPool(t, 2, 2)
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

// statusWebhook has the API server ask, before the status of a pod with the label is written,
// a server that does not answer until release is closed, and then allows it.
func statusWebhook(t *testing.T, c *framework.Cluster, label string, release <-chan struct{}) (asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		body, err := io.ReadAll(r.Body)
		review := &admissionv1.AdmissionReview{}
		if err != nil || json.Unmarshal(body, review) != nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server may be gone
	}))
	t.Cleanup(server.Close)
	_, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "status"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:           "status.example.com",
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status"}},
			}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: ptr.To(server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			TimeoutSeconds: ptr.To(int32(30)), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// TestWebhookHangs starts a scheduler where a webhook on pods/status does not answer for one
// pod that waits for a share. Others are placed meanwhile, wherever they leave room for what
// a former process may still bind; that comes, and no device is allocated twice; and the other
// pod of the kind is placed as soon as the webhook answers.
func TestWebhookHangs(t *testing.T) {
	const label, devices = "example.com/hangs", 4
	c := startPool(t, 1, devices)
	release := make(chan struct{})
	asked := statusWebhook(t, c, label, release)
	stuck := func(name string) *corev1.Pod {
		pod := gpuchurn.SharePod(name, "300")
		pod.Labels = map[string]string{label: "true"}
		return c.CreatePod(t, pod)
	}
	late, waits := stuck("late"), stuck("waits")
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	framework.WaitForCondition(t, framework.WaitTimeout, "the webhook to be asked", func() (bool, error) { return asked.Load() > 0, nil })
	// 300 for each of the two are left on each of the four.
	for i := range 2 * devices {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("other-%d", i), "200"))
	}
	for i := range 2 * devices {
		c.WaitForPodScheduled(t, namespace, fmt.Sprintf("other-%d", i))
	}
	c.CreatePod(t, gpuchurn.SharePod("one-more", "200"))
	c.WaitForPodUnschedulable(t, namespace, "one-more")
	noneIsNamed(t, c, "one-more", late.Name, waits.Name)
	requireWarned(t, c, "GPUPodNotFenced", "no answer within", late.Name, waits.Name)
	if _, same := unchanged(t, c, late); !same {
		t.Fatal("the webhook has let a write through")
	}
	if err := lateBinding(t, c, late, gpuchurn.Nodes(1, devices)[0].Name, "main=0:300m:12288Mi"); err != nil {
		t.Fatalf("a Binding of a former process: %v", err)
	}
	c.WaitForPodScheduled(t, namespace, "one-more") // three devices have room now
	if current, _ := unchanged(t, c, waits); current.Spec.NodeName != "" {
		t.Errorf("the pod that cannot be fenced is on node %s", current.Spec.NodeName)
	}
	close(release)
	c.WaitForPodScheduled(t, namespace, waits.Name)
	requireRight(t, c, s, 2*devices+3)
}

// TestHangingRequests: a request for one pod hangs, of each kind that the plugin sends, and
// the connection with it. All others are placed while it does.
func TestHangingRequests(t *testing.T) {
	const others = 30
	c := startPool(t, 2, 4)
	hang := make(chan struct{})
	var hanging [2]atomic.Int64
	stuck := c.CreatePod(t, nowhere("stuck"))
	s := startBehind(t, c, gpuProfile, faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			if b.Pod == "hung" {
				hanging[0].Add(1)
				<-hang
			}
			return passOn(b)
		},
		Answer: func(r *http.Request) *faultproxy.Answer {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/"+stuck.Name+"/status") {
				hanging[1].Add(1)
				select {
				case <-hang:
				case <-r.Context().Done():
				}
			}
			return nil
		},
	})
	c.CreatePod(t, gpuchurn.SharePod("hung", "100"))
	framework.WaitForCondition(t, framework.WaitTimeout, "both to hang", func() (bool, error) {
		return hanging[0].Load() > 0 && hanging[1].Load() > 0, fmt.Errorf("%d Bindings and %d writes of the status do", hanging[0].Load(), hanging[1].Load())
	})
	for i := range others {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("other-%d", i), "50"))
	}
	for i := range others {
		c.WaitForPodScheduled(t, namespace, fmt.Sprintf("other-%d", i))
	}
	if n := hanging[0].Load(); n != 1 {
		t.Errorf("the Binding that hangs was sent %d times", n)
	}
	close(hang)
	c.WaitForPodScheduled(t, namespace, "hung")
	forceDelete(t, c, stuck.Name)
	requireRight(t, c, s, others+1)
}

// TestRenamedProfile ends a leader while a Binding is on its way; the next one serves another
// schedulerName. What is on its way is refused.
func TestRenamedProfile(t *testing.T) {
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
	if answer := passOn(onItsWay.Load()); answer == nil || answer.Code != http.StatusConflict {
		t.Errorf("the Binding of the former leader was answered %+v, want %d", answer, http.StatusConflict)
	}
	forceDelete(t, c, "late")
	requireRight(t, c, s, 1)
}

// TestTwoWithoutElection starts a second process that serves the same pods. The first one
// finds its token on a pod, and gives no share from then on.
func TestTwoWithoutElection(t *testing.T) {
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
