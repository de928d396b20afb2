// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// admission explains what the API server will not create, and what Kueue keeps back: the
// quota that it names is the one that then refuses the pods.
func (s *suite) admission(t *testing.T) {
	const team = "quota"
	s.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: quota}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io}
spec:
  group: kueue.x-k8s.io
  names: {kind: Workload, plural: workloads, singular: workload}
  scope: Namespaced
  versions:
  - {name: v1beta2, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)
	s.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/workloads.kueue.x-k8s.io")
	s.Apply(t, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: compute, namespace: quota}
spec: {hard: {requests.cpu: "3", pods: "10"}}
`)
	framework.WaitForCondition(t, framework.WaitTimeout, "the quota to be counted", func() (bool, error) {
		q, err := s.Client.CoreV1().ResourceQuotas(team).Get(t.Context(), "compute", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) == 2, err
	})
	manifest := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(manifest, []byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: quota}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: berth-plain
      containers: [{name: main, image: registry.example.com/app, resources: {requests: {cpu: "2"}}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _ := s.run(t, s.Kubeconfig, exitNotPlaced, "-f", manifest, "-n", team)
	if want := "ResourceQuota quota/compute admits 1 of 3 pods: 2 of 3 requests.cpu are in use; the next pod needs 2"; !strings.Contains(stdout, want) {
		t.Errorf("want %q in\n%s", want, stdout)
	}
	pod := func(name string) *corev1.Pod {
		p := framework.Pod(team, name, "berth-plain")
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		return p
	}
	if _, err := s.Client.CoreV1().Pods(team).Create(t.Context(), pod("refused"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the quota lets a pod with more than it has through: %v", err)
	}

	gated := framework.Pod(team, "queued", "berth-plain")
	gated.Labels["kueue.x-k8s.io/queue-name"] = "team-queue"
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
	gated.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	created, err := s.Client.CoreV1().Pods(team).Create(t.Context(), gated, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(t, fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: pod-queued
  namespace: quota
  ownerReferences: [{apiVersion: v1, kind: Pod, name: queued, uid: %s}]
spec: {queueName: team-queue}
`, created.UID))
	s.Kubectl(t, "-n", team, "patch", "workloads.kueue.x-k8s.io", "pod-queued", "--subresource=status", "--type=merge", "-p",
		`{"status":{"conditions":[{"type":"QuotaReserved","status":"False","reason":"Pending","lastTransitionTime":"2026-01-01T00:00:00Z","message":"couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"}]}}`)
	stdout, _ = s.run(t, s.Kubeconfig, exitNotPlaced, "pod/queued", "-n", team)
	if want := "Kueue's Workload quota/pod-queued (queue team-queue) has no quota: couldn't assign flavors to pod set main"; !strings.Contains(stdout, want) {
		t.Errorf("want %q in\n%s", want, stdout)
	}
	s.Kubectl(t, "delete", "namespace", team, "--wait=false")
	s.Kubectl(t, "delete", "crd", "workloads.kueue.x-k8s.io")
}

// load explains beside a scheduler that has its hands full: the cluster is asked by get and
// list alone, lists come in pages, and how many requests it took is told.
func (s *suite) load(t *testing.T) {
	s.waiting(t)
	s.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: explainer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: explainer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: explainer, namespace: default}]
---
apiVersion: v1
kind: Namespace
metadata: {name: load}
`)
	const pods, workers = 1200, 10
	var creating sync.WaitGroup
	for worker := range workers {
		creating.Go(func() {
			for i := worker; i < pods; i += workers {
				p := framework.Pod("load", fmt.Sprintf("p-%d", i), "berth-plain")
				p.Spec.NodeSelector = map[string]string{"nobody": "has"}
				if _, err := s.Client.CoreV1().Pods("load").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	creating.Wait() // the scheduler is at it
	kubeconfig, start := s.ServiceAccountKubeconfig(t, "default", "explainer"), time.Now()
	stdout, _ := s.run(t, kubeconfig, exitNotPlaced, "pod/large", "-o", "wide")
	took := time.Since(start)
	asked := s.AuditEvents(t, func(event *auditv1.Event) bool {
		return event.User.Username == "system:serviceaccount:default:explainer"
	})
	pages := 0
	for i := range asked {
		if !slices.Contains([]string{"get", "list"}, asked[i].Verb) {
			t.Errorf("a request that is neither get nor list: %s %s", asked[i].Verb, asked[i].RequestURI)
		}
		if asked[i].Verb == "list" && asked[i].ObjectRef.Resource == "pods" {
			pages++
			if !strings.Contains(asked[i].RequestURI, "limit=500") {
				t.Errorf("a list without pages: %s", asked[i].RequestURI)
			}
		}
	}
	if pages < 3 {
		t.Errorf("%d pages of pods, want 3 at least of %d pods", pages, pods)
	}
	told := 0
	if _, text, ok := strings.Cut(stdout, "the cluster was read with "); ok {
		if _, err := fmt.Sscanf(text, "%d requests (get and list only", &told); err != nil {
			t.Errorf("%v in %q", err, text)
		}
	}
	// The audit log has what is asked of resources.
	if told < len(asked) || told > len(asked)+4 {
		t.Errorf("%d requests are told, and %d were made:\n%s", told, len(asked), stdout)
	}
	t.Logf("%d requests, %d of them pages of pods, %v, beside %d pods that wait for the scheduler", told, pages, took, pods)
	s.Kubectl(t, "delete", "namespace", "load", "--wait=false")
}
