// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// namespacePatience is how long the controller-manager may take to give a new
// namespace its default ServiceAccount.
const namespacePatience = time.Minute

// applyWorkloads applies the policy example, the pods with shares of devices, and
// the shop.
func (d *demo) applyWorkloads(ctx context.Context) error {
	d.step("applying the policy example (hack/demo/policy.yaml) and pods with shares of GPUs (hack/demo/gpu.yaml)")
	for _, file := range []string{"policy.yaml", "gpu.yaml"} {
		if err := d.kubectl(ctx, nil, "apply", "--server-side", "-f", filepath.Join(d.root, "hack", "demo", file)); err != nil {
			return err
		}
	}
	content, err := os.ReadFile(d.shop)
	if err != nil {
		return fmt.Errorf("reading the shop: %w", err)
	}
	manifests, dealt, err := deal(content, schedulerNames)
	if err != nil {
		return fmt.Errorf("%s: %w", d.shop, err)
	}
	var parts []string
	for _, name := range schedulerNames {
		parts = append(parts, fmt.Sprintf("%s %d", name, dealt[name]))
	}
	shown := d.shop
	if relative, err := filepath.Rel(d.root, d.shop); err == nil {
		shown = relative
	}
	d.step("applying %d Deployments of %s: %s", sum(dealt), shown, strings.Join(parts, ", "))
	if err := d.kubectl(ctx, manifests, "apply", "--server-side", "-n", shopNamespace, "-f", "-"); err != nil {
		return err
	}
	return d.applyNear(ctx, content)
}

func sum(counts map[string]int) int {
	total := 0
	for n := range maps.Values(counts) {
		total += n
	}
	return total
}

// createNamespaces creates the namespaces of the demo's pods and, if it is asked
// for, the pods that break a rule: before the admission policies that would refuse
// them are installed.
func (d *demo) createNamespaces(ctx context.Context) error {
	for _, namespace := range namespaces {
		if err := d.createNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	if !d.breakRule {
		return nil
	}
	if err := d.plant(ctx); err != nil {
		return err
	}
	return d.plantShares(ctx)
}

// createNamespace creates a namespace and waits for what a pod in it needs.
func (d *demo) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if slices.Contains(ruleNamespaces, name) {
		namespace.Labels = map[string]string{teamLabel: ruleTeam}
	}
	if _, err := d.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	problem := fmt.Sprintf("has not given namespace %s its default ServiceAccount", name)
	return d.waitFor(ctx, namespacePatience, d.processes[0], problem, func(ctx context.Context) (bool, error) {
		_, err := d.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// deal decodes manifests, gives each Deployment the next of schedulers by turns,
// and returns them as encode does. It also returns how many Deployments each scheduler was given.
func deal(content []byte, schedulers []string) ([]byte, map[string]int, error) {
	objects, err := decode(content)
	if err != nil {
		return nil, nil, err
	}
	dealt := map[string]int{}
	next := 0
	for _, object := range objects {
		if !isDeployment(object) {
			continue
		}
		name := schedulers[next%len(schedulers)]
		next++
		dealt[name]++
		if err := unstructured.SetNestedField(object.Object, name, "spec", "template", "spec", "schedulerName"); err != nil {
			return nil, nil, fmt.Errorf("deployment %s: %w", object.GetName(), err)
		}
	}
	if next < len(schedulers) {
		return nil, nil, fmt.Errorf("has %d Deployments, and %d are needed to give each scheduler one", next, len(schedulers))
	}
	encoded, err := encode(objects)
	return encoded, dealt, err
}

func isDeployment(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind().String() == "Deployment.apps"
}

// encode returns objects as one List, Deployments last so that what their pods refer
// to is there first.
func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	rank := func(object *unstructured.Unstructured) int {
		if isDeployment(object) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })

	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, object := range objects {
		list.Items = append(list.Items, *object)
	}
	encoded, err := list.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding the Deployments: %w", err)
	}
	return encoded, nil
}

// decode returns the objects of a YAML or JSON file, those of a List one by one.
func decode(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for document := 1; ; document++ {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", document, err)
		}
		switch {
		case len(object.Object) == 0: // comments only
		case object.GetKind() == "" || object.GetAPIVersion() == "":
			return nil, fmt.Errorf("document %d is not a Kubernetes object: apiVersion %q, kind %q", document, object.GetAPIVersion(), object.GetKind())
		case object.IsList():
			err := object.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", document, err)
			}
		default:
			objects = append(objects, object)
		}
	}
}
