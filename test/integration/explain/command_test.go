// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// large asks for more than a node has.
const large = `
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: default}
spec:
  schedulerName: berth-gpu
  containers: [{name: main, image: registry.example.com/app, resources: {requests: {cpu: "12"}}}]
`

// waiting creates the pod that asks for too much, and waits until it has been refused.
func (s *suite) waiting(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{}
	unmarshal(t, large, pod)
	created := s.create(t, pod)
	t.Cleanup(func() { s.delete(s.whole, []*corev1.Pod{created}) })
	s.WaitForPodUnschedulable(t, "default", "large")
}

// command runs it as people do, with the profile of the running scheduler.
func (s *suite) command(t *testing.T) {
	s.waiting(t)
	stdout, _ := s.run(t, s.Kubeconfig, exitNotPlaced, "pod/large", "-o", "wide")
	for _, want := range []string{
		"Insufficient cpu", "lease " + names.Namespace + "/" + names.Scheduler, "ConfigMap " + names.Namespace + "/profiles, profiles.yaml", "request 7 of cpu instead of 12",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
	if stdout, _ = s.run(t, s.Kubeconfig, exitOK, "pod/backend"); !strings.Contains(stdout, "is on node plain-a") {
		t.Errorf("of a pod that runs:\n%s", stdout)
	}
	if _, stderr := s.run(t, s.Kubeconfig, exitFailed, "pod/gone"); !strings.Contains(stderr, `"gone" not found`) {
		t.Errorf("of no pod:\n%s", stderr)
	}
}

// rights explains with those of a reader of one namespace.
func (s *suite) rights(t *testing.T) {
	s.waiting(t)
	s.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: developer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: developer, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: developer, namespace: default}]
`)
	stdout, _ := s.run(t, s.ServiceAccountKubeconfig(t, "default", "developer"), exitNotPlaced, "pod/large", "-o", "wide")
	for _, want := range []string{"The scheduler reports: 0/8 nodes are available", "Insufficient cpu", "Not seen: nodes were left out", "Not seen: leases", "no change was tried"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "What would help") {
		t.Errorf("changes were proposed and cannot have been tried:\n%s", stdout)
	}
}

// profile is one that does not decode, and one that stands in a file.
func (s *suite) profile(t *testing.T) {
	s.waiting(t)
	maps := s.Client.CoreV1().ConfigMaps(names.Namespace)
	broken, err := maps.Get(t.Context(), "profiles", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken.Data["profiles.yaml"] = strings.Replace(broken.Data["profiles.yaml"], "multiPoint", "multipoint", 1)
	if _, err := maps.Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, stderr := s.run(t, s.Kubeconfig, exitFailed, "pod/large"); !strings.Contains(stderr, "ConfigMap "+names.Namespace+"/profiles, profiles.yaml") || !strings.Contains(stderr, `unknown field "profiles[0].plugins.multipoint"`) {
		t.Errorf("want the ConfigMap, its key and the field in\n%s", stderr)
	}
	if stdout, _ := s.run(t, s.Kubeconfig, exitNotPlaced, "pod/large", "--config", framework.Root()+"/"+profiles); !strings.Contains(stdout, "Insufficient cpu") {
		t.Errorf("with --config:\n%s", stdout)
	}
}
