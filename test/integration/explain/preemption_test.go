// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
)

// preemptionForGang explains a gang of high priority before it is created, and then creates it:
// the scheduler evicts those pods that were named, and no others.
func (s *suite) preemptionForGang(t *testing.T) {
	if coscheduling {
		t.Skip("the PodGroups of this release cannot be simulated")
	}
	var cases []testCase
	if err := yaml.UnmarshalStrict(content(t, data+"cases.yaml"), &cases); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(cases, func(c testCase) bool { return c.State == explain.Preempting && c.ofPodGroup() })
	manifest := filepath.Join(t.TempDir(), "gang.yaml")
	if err := os.WriteFile(manifest, []byte(cases[at].Manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	inputs, err := source.Read(t.Context(), &source.Options{
		Namespace: corev1.NamespaceDefault, Manifests: []string{manifest}, Client: s.Client, Host: s.Config.Host, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	x, err := explain.Explain(t.Context(), inputs[0])
	if err != nil {
		t.Fatal(err)
	}
	if x.State != explain.Preempting || len(x.Preemption.Victims) == 0 {
		t.Fatalf("%s: %s; want victims", x.State, x.Answer)
	}
	t.Log(x.Answer)

	running := s.running(t)
	var pods, evicted []*corev1.Pod
	t.Cleanup(func() {
		s.delete(s.whole, pods)
		for _, pod := range evicted {
			s.create(s.whole, pod)
		}
	})
	for document := range documents(t, cases[at].Manifest) {
		pod := &corev1.Pod{}
		unmarshal(t, document, pod)
		pods = append(pods, s.create(t, pod))
	}
	var nodes []string
	for _, pod := range pods {
		nodes = append(nodes, s.WaitForPodScheduled(t, pod.Namespace, pod.Name).Spec.NodeName)
	}
	slices.Sort(nodes)
	if diff := cmp.Diff(x.Preemption.Nodes, nodes); diff != "" {
		t.Errorf("nodes (-told,+chosen):\n%s", diff)
	}
	still := s.running(t)
	var victims []string
	for name, pod := range running {
		if still[name] == nil {
			victims, evicted = append(victims, name), append(evicted, pod)
		}
	}
	slices.Sort(victims)
	if diff := cmp.Diff(x.Preemption.Victims, victims); diff != "" {
		t.Errorf("victims (-told,+evicted):\n%s", diff)
	}
}

// running are the pods that have nodes, as NAMESPACE/NAME.
func (s *suite) running(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	list, err := s.Client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]*corev1.Pod{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			running[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return running
}
