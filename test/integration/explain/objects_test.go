// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// set creates an object, or makes one what it should be until the end of the test.
func (s *suite) set(t *testing.T, object runtime.Object) {
	t.Helper()
	switch object := object.(type) {
	case *corev1.Node:
		s.setNode(t, object)
	case *corev1.Namespace:
		namespaces := s.Client.CoreV1().Namespaces()
		update := func(t *testing.T, labels map[string]string) {
			t.Helper()
			if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				now, err := namespaces.Get(t.Context(), object.Name, metav1.GetOptions{})
				if err == nil {
					now.Labels = labels
					_, err = namespaces.Update(t.Context(), now, metav1.UpdateOptions{})
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		before, err := namespaces.Get(t.Context(), object.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		update(t, object.Labels)
		t.Cleanup(func() { update(s.whole, before.Labels) })
	default:
		t.Fatalf("a change of a %T", object)
	}
}

// setNode is set for a node.
func (s *suite) setNode(t *testing.T, node *corev1.Node) {
	t.Helper()
	nodes := s.Client.CoreV1().Nodes()
	before, err := nodes.Get(t.Context(), node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		created := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}, Spec: node.Spec}
		created.Status.Capacity, created.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
		created.Spec.ProviderID, created.Spec.PodCIDR, created.Spec.PodCIDRs = "", "", nil
		if _, err := nodes.Create(t.Context(), created, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := nodes.Delete(s.whole.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	update := func(t *testing.T, node *corev1.Node) {
		t.Helper()
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now, err := nodes.Get(t.Context(), node.Name, metav1.GetOptions{})
			if err == nil {
				now.Labels, now.Annotations, now.Spec = node.Labels, node.Annotations, node.Spec
				_, err = nodes.Update(t.Context(), now, metav1.UpdateOptions{})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	update(t, node)
	t.Cleanup(func() { update(s.whole, before) })
}

// setMinMember sets how many members the gang of the pods needs, until the end of the
// test.
func (s *suite) setMinMember(t *testing.T, in *explain.Input, members int) {
	t.Helper()
	native := in.Pods[0].Spec.SchedulingGroup != nil
	patch := func(t *testing.T, members int) {
		t.Helper()
		resource, spec := "podgroups.scheduling.x-k8s.io", `{"spec":{"minMember":%d}}`
		if native {
			resource, spec = "podgroups.scheduling.k8s.io", `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`
		}
		s.Kubectl(t, "-n", in.Pods[0].Namespace, "patch", resource, podgroup.Of(in.Pods[0]).Name, "--type=merge", "-p", fmt.Sprintf(spec, members))
	}
	for _, group := range in.PodGroups {
		if group.Native == native && group.Name == podgroup.Of(in.Pods[0]).Name && group.MinMember != members {
			patch(t, members)
			t.Cleanup(func() { patch(s.whole, group.MinMember) })
		}
	}
}
