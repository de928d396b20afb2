// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
)

// TestAppliedObjects: what a manifest says of an object that the cluster has is taken for
// applied, and what it does not say of a node's status stays.
func TestAppliedObjects(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: default}
spec:
  schedulerName: berth-plain
  nodeSelector: {disk: fast}
  containers: [{name: main, image: registry.example.com/app, resources: {requests: {cpu: "1"}}}]
`
	for _, tt := range []struct {
		name, manifest string
		want           explain.State
	}{
		{"as the cluster is", pod, explain.Unschedulable},
		{"with another label of a node that is there", pod + `---
apiVersion: v1
kind: Node
metadata: {name: plain-b, labels: {kubernetes.io/hostname: plain-b, disk: fast}}
`, explain.Fits},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := explained(t, &source.Options{Manifests: []string{file(t, "manifest.yaml", tt.manifest)}, Snapshots: []string{"../testdata/cluster.yaml"}})
			if x.State != tt.want || len(x.NotSeen) > 0 {
				t.Errorf("want %s, got %s: %s; not seen: %v", tt.want, x.State, x.Answer, x.NotSeen)
			}
		})
	}
}

// TestEndedPod: a pod that has terminated is in no cluster that schedules, and is told of
// all the same.
func TestEndedPod(t *testing.T) {
	snapshot := file(t, "cluster.json", `{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}},
		{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done", "namespace": "default", "uid": "p"},
		 "spec": {"nodeName": "n", "schedulerName": "berth-plain", "containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Succeeded"}}]}`)
	x := explained(t, &source.Options{Pod: "done", Snapshots: []string{snapshot}})
	if want := "Pod default/done has ended (Succeeded)"; x.State != explain.Bound || !strings.HasPrefix(x.Answer, want) {
		t.Errorf("want %q, got %s: %q", want, x.State, x.Answer)
	}
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func explained(t *testing.T, o *source.Options) *explain.Explanation {
	t.Helper()
	o.Namespace, o.Config, o.Now = "default", "../testdata/profiles.yaml", time.Unix(0, 0)
	inputs, err := source.Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	x, err := explain.Explain(t.Context(), inputs[0])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestFromSnapshot: what keeps pods from the queue is read from files as from a server.
func TestFromSnapshot(t *testing.T) {
	const (
		node   = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}}`
		group  = `{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "train", "namespace": "default", "uid": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}`
		basic  = `{"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "train", "namespace": "default", "uid": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}`
		other  = `{"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "train", "namespace": "default", "uid": "g"}, "spec": {"minMember": 3}}`
		quota  = `{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default", "uid": "q"}, "spec": {"hard": {"pods": "5", "limits.cpu": "4"}}, "status": {"hard": {"pods": "5", "limits.cpu": "4"}, "used": {"pods": "5", "limits.cpu": "1"}}}`
		queued = `{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w", "namespace": "default", "uid": "w", "ownerReferences": [{"kind": "Pod", "name": "a", "uid": "a"}]},
			"spec": {"queueName": "lq"}, "status": {"conditions": [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "False", "message": "waits for check x."}]}}`
	)
	const urgent = `{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent", "uid": "u"}, "value": 1000}`
	pod := func(name, spec string) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `", "namespace": "default", "uid": "` + name + `"},
			"spec": {"schedulerName": "berth-plain", ` + spec + `"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}`
	}
	const member, gated = `"schedulingGroup": {"podGroupName": "train"}, `, `"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], `
	manifest := file(t, "pod.yaml", `
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: default}
spec:
  schedulerName: berth-plain
  containers: [{name: c, image: i}]
`)
	large := file(t, "large.yaml", strings.Replace(read(t, manifest), "image: i", `image: i, resources: {requests: {cpu: "8"}}`, 1))
	running := strings.Replace(pod("b", `"nodeName": "n", `), "limits", "requests", 1)
	for _, tt := range []struct {
		name      string
		objects   []string
		manifests []string
		state     explain.State
		want      string
	}{
		{"a gang of Kubernetes itself", []string{group, pod("a", member), pod("b", member)}, nil, explain.Waiting, "gang default/train: 2 of its 3 members exist"},
		{"that is whole", []string{group, pod("a", member), pod("b", member), pod("c", member)}, nil, explain.Fits, "3 of 3 find a node"},
		{"that there is none of", []string{other, pod("a", member)}, nil, explain.Waiting, "PodGroup default/train (scheduling.k8s.io), which spec.schedulingGroup names, does not exist"},
		{"whose members start one by one", []string{basic, pod("a", member)}, nil, explain.Fits, "node n can take it"},
		{"a gate of Kueue", []string{queued, pod("a", gated)}, nil, explain.Gated, "Kueue's Workload default/w (queue lq) has its quota, but its admission checks have not passed: waits for check x. Otherwise, it fits"},
		{"a quota that is used up", []string{quota}, []string{file(t, "p.yaml", strings.Replace(read(t, manifest), "image: i", "image: i, resources: {limits: {cpu: 100m}}", 1))}, explain.NotAdmitted, "ResourceQuota default/q admits 0 of 1 pod: 5 of 5 pods are in use; the next pod needs 1. Otherwise, it fits"},
		{"a PriorityClass that the cluster does not have", []string{urgent}, []string{file(t, "p.yaml", strings.Replace(read(t, manifest), "spec:", "spec:\n  priorityClassName: urgnt", 1))}, explain.NotAdmitted, `cannot be created in full: spec.priorityClassName: there is no PriorityClass "urgnt": create it, or name another. Otherwise, it fits`},
		{"a PriorityClass that comes with the pod", []string{running}, []string{file(t, "p.yaml", strings.Replace(read(t, large), "spec:", "spec:\n  priorityClassName: urgent", 1)+"---\n"+urgent)}, explain.Preempting, "evicts default/b, of lower priority"},
		{"no PriorityClass", []string{running}, []string{large}, explain.Unschedulable, "Insufficient cpu"},
		{"a quota of what the pod does not name", []string{quota}, []string{manifest}, explain.NotAdmitted, "ResourceQuota default/q admits 0 of 1 pod: must specify limits.cpu for: c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snapshot := file(t, "cluster.json", `{"apiVersion": "v1", "kind": "List", "items": [`+strings.Join(append(tt.objects, node), ",\n")+`]}`)
			o := &source.Options{Pod: "a", Snapshots: []string{snapshot}, Manifests: tt.manifests}
			if tt.manifests != nil {
				o.Pod = ""
			}
			if x := explained(t, o); x.State != tt.state || !strings.Contains(x.Answer, tt.want) {
				t.Errorf("want %s and %q, got %s: %s", tt.state, tt.want, x.State, x.Answer)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
