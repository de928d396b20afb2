// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// policyName is that of the policy and of its binding.
const policyName = "berth-colocation"

// admission compares what the policy refuses with what the scheduler could not read,
// and removes the policy's binding: the other tests are about the scheduler.
func admission(t *testing.T, c *framework.Cluster) {
	const (
		with, keys, required = names.ColocateWithAnnotation, names.ColocateTopologyKeysAnnotation, names.ColocateRequiredTopologyKeyAnnotation
		zone                 = corev1.LabelTopologyZone
	)
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("s%d", i))
		}
		return strings.Join(list, ",")
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	pod := func(annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Namespace: "default", Annotations: annotations},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/app"}}},
		}
	}
	framework.WaitForCondition(t, framework.WaitTimeout, "the ServiceAccount of default", func() (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, err
	})
	create := func(annotations map[string]string) error {
		_, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod(annotations), dry)
		return err
	}
	wrong := map[string]string{with: "backend=0"}
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy to be in force", func() (bool, error) {
		return create(wrong) != nil, nil
	})

	corpus := []map[string]string{{}, {"example.com/x": "y"}, {"berth.dev/unknown": ","}}
	for _, value := range []string{
		"backend", "backend=3,cache", " backend = 3 , other/db=100,cache=1 ", "a,b/a", "a=100", "a=99", "a=10", many(32), strings.Repeat("a", 63), "a\t,\u00a0b",
		"", " ", ",", "a,", "a,,b", "A", "a.b", "a b", "a;b", "-a", "a-", "/", "/b", "a/", "a/b/c", "a=", "=", "=3", "a=0", "a=101", "a=1000", "a=-1", "a=+1", "a=01", "a=1.5",
		"a=high", "a=1=2", "a/b=1/2", "a,a", "a,a=3", "x/a,x/a", "é", "100%d", many(33), strings.Repeat("a", 64), "a" + strings.Repeat(" ", 8192), "a" + strings.Repeat("\u00a0", 4100),
	} {
		corpus = append(corpus, map[string]string{with: value})
	}
	for _, value := range []string{
		zone, "kubernetes.io/hostname, " + zone, "rack", "a_b.c-d", strings.Repeat("p", 253) + "/" + strings.Repeat("k", 63), "a,b,c,d,e,f,g,h",
		"", ",", zone + "," + zone, "a b", "a/b/c", "/a", "a/", "-a", "a,b,c,d,e,f,g,h,i", strings.Repeat("k", 64), strings.Repeat("p", 254) + "/k", strings.Repeat("a", 9000), "é",
	} {
		corpus = append(corpus, map[string]string{with: "a", keys: value}, map[string]string{with: "a", required: value})
	}
	corpus = append(corpus,
		map[string]string{keys: zone}, map[string]string{required: zone}, map[string]string{with: "a", keys: zone, required: zone},
		map[string]string{names.FormerColocatePreferAnnotation: zone}, map[string]string{with: "a", names.FormerColocateRequireWithinAnnotation: zone},
	)
	refused := 0
	for _, annotations := range corpus {
		admitted, understood := create(annotations), colocation.CheckAnnotations(pod(annotations))
		if (admitted == nil) != (understood == nil) {
			t.Errorf("%.300q: the policy says %v, the scheduler %v", annotations, admitted, understood)
		}
		if admitted == nil {
			continue
		}
		refused++
		if text := admitted.Error(); !strings.Contains(text, policyName) || !strings.Contains(text, "berth.dev/colocate-") || strings.Contains(text, "expression") {
			t.Errorf("%.300q: refused with %v", annotations, admitted)
		}
	}
	t.Logf("%d of %d are refused", refused, len(corpus))

	for _, list := range []string{
		"", "shop", "*", "shop, bank ,", "x,*", strings.Repeat("a,", 127) + "a",
		"b*", "Shop", "a b", strings.Repeat("a,", 128) + "a", strings.Repeat("a", 64), "a" + strings.Repeat(" ", 8192),
	} {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "s-", Namespace: "default", Annotations: map[string]string{names.AllowColocationFromAnnotation: list}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		_, admitted := c.Client.CoreV1().Services("default").Create(t.Context(), service, dry)
		if _, err := peers.ParseConsent(list); (admitted == nil) != (err == nil) {
			t.Errorf("consent %.100q: the policy says %v, the scheduler %v", list, admitted, err)
		}
	}

	// What makes pods is refused where it is applied.
	labels := map[string]string{"app": "x"}
	for annotations, want := range map[*map[string]string]bool{&wrong: false, {with: "backend"}: true} {
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: *annotations}, Spec: pod(nil).Spec}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		meta := metav1.ObjectMeta{GenerateName: "x-", Namespace: "default"}
		job := template.DeepCopy()
		job.Spec.RestartPolicy = corev1.RestartPolicyNever
		jobSpec := batchv1.JobSpec{Template: *job}
		errs := map[string]error{}
		_, errs["Deployment"] = c.Client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, dry)
		_, errs["StatefulSet"] = c.Client.AppsV1().StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}, dry)
		_, errs["DaemonSet"] = c.Client.AppsV1().DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, dry)
		_, errs["Job"] = c.Client.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{ObjectMeta: meta, Spec: jobSpec}, dry)
		_, errs["CronJob"] = c.Client.BatchV1().CronJobs("default").Create(t.Context(), &batchv1.CronJob{
			ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: jobSpec}},
		}, dry)
		for kind, err := range errs {
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), policyName) {
				t.Errorf("a %s with %v: %v", kind, *annotations, err)
			}
		}
	}

	if err := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), policyName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy to be gone", func() (bool, error) {
		err := create(wrong)
		return err == nil, err
	})
}
