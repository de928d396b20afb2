// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestList lists a cluster through a client that allows nothing but lists.
func TestList(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "done"},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}}, Status: corev1.PodStatus{Phase: corev1.PodFailed},
		},
	)
	refuse := func(resource string, err error) {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
	refuse("storageclasses", apierrors.NewForbidden(schema.GroupResource{Resource: "storageclasses"}, "", nil))
	refuse("resourceclaims", apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, ""))

	c, notes, err := List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Node n1", "Pod default/p pending", "Namespace"}, summary(c)); diff != "" {
		t.Errorf("Unexpected objects (-want,+got):\n%s", diff)
	}
	for resource, want := range map[string]bool{"pods": true, "services": true, "storageclasses": false, "resourceclaims": false} {
		if got := c.Has(resource); got != want {
			t.Errorf("Has(%q) = %t, want %t", resource, got, want)
		}
	}
	var got []string
	for _, note := range notes {
		got = append(got, note.String())
	}
	if diff := cmp.Diff([]string{
		"storageclasses were left out: storageclasses is forbidden: <nil>",
		`resourceclaims were left out: resourceclaims "" not found`,
	}, got); diff != "" {
		t.Errorf("Unexpected notes (-want,+got):\n%s", diff)
	}
	listed := 0
	for _, action := range client.Actions() {
		if action.GetVerb() != "list" {
			t.Errorf("It does more than list: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
		listed++
	}
	if listed != len(Supported()) {
		t.Errorf("%d lists for %d kinds", listed, len(Supported()))
	}

	refuse("pods", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil))
	if _, _, err := List(t.Context(), client); err == nil || !strings.HasPrefix(err.Error(), "listing pods: ") {
		t.Errorf("Without the right to list pods: %v", err)
	}
}

// TestSupportedKinds makes sure that what is listed can also be read, and that it is
// listed as what it is.
func TestSupportedKinds(t *testing.T) {
	for _, kind := range Supported() {
		client := fake.NewClientset()
		if _, err := kind.list(client, metav1.NamespaceAll)(t.Context(), metav1.ListOptions{}); err != nil || !client.Actions()[0].Matches("list", kind.Resource) {
			t.Errorf("%s are listed by %v (%v)", kind.Resource, client.Actions(), err)
		}
		if got, ok := kindNamed(kind.GroupVersionKind); !ok || got.Resource != kind.Resource {
			t.Errorf("%s is read as %q", kind.GroupVersionKind, got.Resource)
		}
	}
}
