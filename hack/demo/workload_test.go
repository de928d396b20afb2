// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dealtObject is what deal may change in an object, and how to recognise it.
type dealtObject struct{ kind, name, scheduler string }

func readDealt(t *testing.T, content []byte) []dealtObject {
	t.Helper()
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Template struct {
					Spec struct{ SchedulerName string }
				}
			}
		}
	}
	if err := json.Unmarshal(content, &list); err != nil {
		t.Fatalf("decoding what was dealt: %v", err)
	}
	var objects []dealtObject
	for _, item := range list.Items {
		objects = append(objects, dealtObject{item.Kind, item.Metadata.Name, item.Spec.Template.Spec.SchedulerName})
	}
	return objects
}

// Deployments are dealt out by turns in the order of the file, and come after
// everything that their pods may refer to.
func TestDeal(t *testing.T) {
	const manifests = `# A comment before the first document.
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: one}
spec: {template: {spec: {schedulerName: somebody-else}}}
---
# Nothing but a comment.
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: one}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: two}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: three}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: one}
`
	content, counts, err := deal([]byte(manifests), []string{"left", "right"})
	if err != nil {
		t.Fatal(err)
	}
	wantObjects := []dealtObject{
		{"Service", "one", ""},
		{"ServiceAccount", "one", ""},
		{"Deployment", "one", "left"},
		{"Deployment", "two", "right"},
		{"Deployment", "three", "left"},
	}
	if diff := cmp.Diff(wantObjects, readDealt(t, content), cmp.AllowUnexported(dealtObject{})); diff != "" {
		t.Errorf("unexpected objects (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"left": 2, "right": 1}, counts); diff != "" {
		t.Errorf("unexpected counts (-want,+got):\n%s", diff)
	}
}

// A file that cannot be dealt out is refused with the place and the reason.
func TestDealRefuses(t *testing.T) {
	tests := []struct {
		name, manifests, want string
	}{
		{name: "empty file", manifests: "", want: "has 0 Deployments, and 2 are needed"},
		{name: "no Deployments", manifests: "{apiVersion: v1, kind: Service, metadata: {name: one}}", want: "has 0 Deployments, and 2 are needed"},
		{name: "a Deployment of another group", manifests: "{apiVersion: example.com/v1, kind: Deployment}", want: "has 0 Deployments"},
		{name: "no YAML", manifests: "a: b: c", want: "document 1"},
		{name: "no object", manifests: "---\nmetadata: {name: one}\n", want: `document 1 is not a Kubernetes object: apiVersion "", kind ""`},
		{name: "no mapping", manifests: "- one\n- two\n", want: "document 1"},
		{name: "template that is no mapping", manifests: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {template: none}}", want: "deployment one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := deal([]byte(tt.manifests), []string{"left", "right"})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// The demo's own sample keeps all three schedulers busy, and leaves it to the
// demo to name them.
func TestDealSample(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("sample", "shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "schedulerName") {
		t.Error("the sample names a scheduler")
	}
	_, counts, err := deal(content, schedulerNames)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"default-scheduler": 3, "berth-scheduler": 3, "random-scheduler": 3}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("unexpected counts (-want,+got):\n%s", diff)
	}
}
