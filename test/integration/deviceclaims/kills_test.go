// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceclaims tests ResourceClaims that DeviceClaims allocates, on a real API server.
package deviceclaims

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	profile   = "config/berth-scheduler/gpu-claims.yaml"
	namespace = metav1.NamespaceDefault
	gpus      = 4
)

// requests are what the pods' claims ask for, by the layout of the node that can give it.
var requests = map[draslices.Layout]resourcev1.ExactDeviceRequest{
	draslices.Whole: {DeviceClassName: draslices.NVIDIADriver, Selectors: selector("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('16Gi')) < 0")},
	draslices.HAMi: {DeviceClassName: draslices.HAMiDriver, Capacity: &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
		"cores": resource.MustParse("40"), "memory": resource.MustParse("5Gi"),
	}}},
	draslices.DynamicMIG: {DeviceClassName: draslices.MIGClass, Selectors: selector("device.attributes['gpu.nvidia.com'].profile == '2g.20gb'")},
}

func selector(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

// TestKills kills the scheduler again and again while pods with claims of three layouts come and go. No device, no capacity
// and no counter is ever given twice, and in the end every pod that fits has its devices.
func TestKills(t *testing.T) {
	layouts := []draslices.Layout{draslices.Whole, draslices.HAMi, draslices.DynamicMIG}
	models := []draslices.Model{draslices.T4(), draslices.T4(), draslices.A100()}
	var nodes []corev1.Node
	for i, layout := range layouts {
		node := localcluster.FakeNodes(i + 1)[i]
		node.Name = string(layout)
		nodes = append(nodes, node)
	}
	c := framework.Start(t, framework.Options{Nodes: nodes})
	api := c.Client.ResourceV1()
	for _, class := range append(draslices.DynamicMIG.Classes(), draslices.HAMi.Classes()...) {
		if _, err := api.DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, layout := range layouts {
		for _, slice := range layout.Slices(string(layout), gpus, models[i]) {
			if _, err := api.ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		template := &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: string(layout)},
			Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: ptr.To(requests[layout])}},
			}}},
		}
		if _, err := api.ResourceClaimTemplates(namespace).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.ApplyManifests(t, "manifests/base")
	scheduler := c.StartBerthScheduler(t, profile, framework.SchedulerOptions{})

	kills := 4
	if framework.Long() {
		kills = 40
	}
	r := rand.New(rand.NewPCG(1, 27)) //nolint:gosec // a test
	pods := c.Client.CoreV1().Pods(namespace)
	var alive []string
	for kill := range kills {
		for i := range 8 {
			layout := layouts[r.IntN(len(layouts))]
			name := fmt.Sprintf("%s-%d-%d", layout, kill, i)
			c.CreatePod(t, claiming(name, string(layout)))
			alive = append(alive, name)
		}
		waitTried(t, c, alive[len(alive)-8:], r.IntN(8))
		scheduler.Kill()
		requireRight(t, c)
		for len(alive) > 16 {
			at := r.IntN(len(alive))
			if err := pods.Delete(t.Context(), alive[at], metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
				t.Fatal(err)
			}
			alive = append(alive[:at], alive[at+1:]...)
		}
		scheduler = c.StartBerthScheduler(t, profile, framework.SchedulerOptions{})
	}
	// As many of the remaining pods as their layout has room for must be bound.
	perLayout := map[string]int{}
	for _, name := range alive {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		perLayout[*pod.Spec.ResourceClaims[0].ResourceClaimTemplateName]++
	}
	room := map[string]int{string(draslices.Whole): gpus, string(draslices.HAMi): 2 * gpus, string(draslices.DynamicMIG): 3 * gpus}
	framework.WaitForCondition(t, framework.WaitTimeout, "every pod that fits to be bound", func() (bool, error) {
		bound := map[string]int{}
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
				bound[*pod.Spec.ResourceClaims[0].ResourceClaimTemplateName]++
			}
		}
		for layout, count := range perLayout {
			if bound[layout] < min(count, room[layout]) {
				return false, fmt.Errorf("%d of %d pods of %s are bound, with room for %d", bound[layout], count, layout, room[layout])
			}
		}
		return true, nil
	})
	requireRight(t, c)
}

// waitTried waits until so many of the pods are bound or were refused.
func waitTried(t *testing.T, c *framework.Cluster, pods []string, want int) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%d pods to be tried", want), func() (bool, error) {
		tried := 0
		for _, name := range pods {
			pod, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if pod.Spec.NodeName != "" || len(pod.Status.Conditions) > 0 {
				tried++
			}
		}
		return tried >= want, fmt.Errorf("%d were", tried)
	})
}

// requireRight checks what the API has.
func requireRight(t *testing.T, c *framework.Cluster) {
	t.Helper()
	slices, err := c.Client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := c.Client.ResourceV1().ResourceClaims("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range oracle.CheckClaims(slices.Items, claims.Items) {
		t.Error(violation)
	}
}

// claiming is a pod with a claim of a template.
func claiming(name, template string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			SchedulerName:  names.Scheduler,
			Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:     []corev1.Container{{Name: "main", Image: "registry.example.com/app", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
		},
	}
}
