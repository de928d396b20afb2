// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func podInformer() cache.SharedIndexInformer {
	return informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
}

func TestShared(t *testing.T) {
	informer := podInformer()
	built := 0
	build := func() (*int, error) {
		built++
		value := built
		return &value, nil
	}
	first, err := Shared(informer, "a", build)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Shared(informer, "a", build)
	if err != nil || first != second {
		t.Errorf("the second profile got %p (%v), the first %p", second, err, first)
	}
	if other, err := Shared(informer, "b", build); err != nil || other == first {
		t.Errorf("another name got the same value (%v)", err)
	}
	if other, err := Shared(podInformer(), "a", build); err != nil || other == first {
		t.Errorf("another instance got the same value (%v)", err)
	}
	if built != 3 {
		t.Errorf("built %d values, want 3", built)
	}
	// The pods of the informer are not in the way.
	if err := informer.GetIndexer().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}); err != nil {
		t.Error(err)
	}
}

func TestSharedErrors(t *testing.T) {
	informer := podInformer()
	wrong := errors.New("wrong")
	for range 2 {
		if _, err := Shared(informer, "a", func() (*int, error) { return nil, wrong }); !errors.Is(err, wrong) {
			t.Errorf("want the error of build, got %v", err)
		}
	}
	number := 1
	if _, err := Shared(informer, "b", func() (*int, error) { return &number, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := Shared(informer, "b", func() (*string, error) { return nil, nil }); err == nil {
		t.Error("a value of another type was handed out")
	}
	// What failed to be built once must not break the informer's own objects.
	if err := informer.GetIndexer().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}); err != nil {
		t.Error(err)
	}
}
