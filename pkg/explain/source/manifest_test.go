// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/explain/source"
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
