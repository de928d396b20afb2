// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ReadNodesFile reads Nodes from a YAML or JSON file: one or more documents, each
// a v1 Node, a v1 List of Nodes or a NodeList, as "kubectl get nodes -o yaml"
// prints. What belongs to the cluster that the file came from (UIDs, resource
// versions, conditions, addresses) is dropped, and what a kubelet would set is
// filled in. The error names the file, the document and the field of everything
// that is wrong with it.
func ReadNodesFile(path string) ([]corev1.Node, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--nodes %s: %w", path, err)
	}
	var nodes []corev1.Node
	var errs []error
	places := map[string]string{}
	fail := func(place string, err error) {
		errs = append(errs, fmt.Errorf("--nodes %s: %s: %w", path, place, err))
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for document := 1; ; document++ {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		place := fmt.Sprintf("document %d", document)
		if err != nil {
			fail(place, err)
			break
		}
		items, err := splitDocument(raw)
		if err != nil {
			fail(place, err)
			continue
		}
		for _, item := range items {
			place := place + item.suffix
			node, problems := decodeNode(item.raw)
			for _, problem := range problems {
				fail(place, problem)
			}
			if node == nil {
				continue
			}
			if first, ok := places[node.Name]; ok {
				fail(place, fmt.Errorf("%w (the first one is in %s)", field.Duplicate(field.NewPath("metadata", "name"), node.Name), first))
				continue
			}
			places[node.Name] = place
			nodes = append(nodes, *node)
		}
	}
	if len(errs) == 0 && len(nodes) == 0 {
		return nil, fmt.Errorf("--nodes %s: the file holds no Node", path)
	}
	return nodes, errors.Join(errs...)
}

// nodeItem is one object of a document, as JSON; suffix says which one of a list.
type nodeItem struct {
	raw    []byte
	suffix string
}

// splitDocument returns the objects of one document: itself, or a list's items.
func splitDocument(raw []byte) ([]nodeItem, error) {
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, err
	}
	if string(asJSON) == "null" { // comments only, or nothing between two separators
		return nil, nil
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(asJSON, &head); err != nil {
		return nil, fmt.Errorf("is not a Kubernetes object: %w", err)
	}
	if head.Kind != "List" && head.Kind != "NodeList" {
		return []nodeItem{{raw: asJSON}}, nil
	}
	items := make([]nodeItem, 0, len(head.Items))
	for i, item := range head.Items {
		// Items of a NodeList may leave out their type.
		if head.Kind == "NodeList" {
			if item, err = withType(item); err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		items = append(items, nodeItem{raw: item, suffix: fmt.Sprintf(", items[%d]", i)})
	}
	return items, nil
}

// withType fills in the type of a Node that has none.
func withType(raw []byte) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("is not a Kubernetes object: %w", err)
	}
	if object == nil {
		object = map[string]any{}
	}
	if object["kind"] == nil && object["apiVersion"] == nil {
		object["kind"], object["apiVersion"] = "Node", "v1"
	}
	return json.Marshal(object)
}

// decodeNode decodes one Node strictly and checks it. The node is nil when there
// is an error.
func decodeNode(raw []byte) (*corev1.Node, []error) {
	var head metav1.TypeMeta
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, []error{fmt.Errorf("is not a Kubernetes object: %w", err)}
	}
	if head.APIVersion != "v1" || head.Kind != "Node" {
		return nil, []error{fmt.Errorf("is apiVersion %q, kind %q: must be v1, Node", head.APIVersion, head.Kind)}
	}
	if errs := checkQuantities(raw); len(errs) > 0 {
		return nil, errs
	}
	var node corev1.Node
	strict, err := kjson.UnmarshalStrict(raw, &node)
	if err != nil {
		return nil, []error{err}
	}
	if len(strict) > 0 {
		return nil, strict
	}
	if list := validateNode(&node); len(list) > 0 {
		errs := make([]error, 0, len(list))
		for _, err := range list {
			errs = append(errs, err)
		}
		return nil, errs
	}
	forgetOrigin(&node)
	completeNode(&node)
	return &node, nil
}

// checkQuantities looks at the resources before the decoder does, because its
// error for a malformed quantity does not say which one.
func checkQuantities(raw []byte) []error {
	var loose struct {
		Status struct {
			Capacity    map[string]json.RawMessage `json:"capacity"`
			Allocatable map[string]json.RawMessage `json:"allocatable"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &loose); err != nil {
		return nil // of another shape altogether: the decoder names the field
	}
	var errs []error
	check := func(path *field.Path, resources map[string]json.RawMessage) {
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			var quantity resource.Quantity
			if err := quantity.UnmarshalJSON(resources[name]); err != nil {
				errs = append(errs, field.Invalid(path.Key(name), string(resources[name]), "must be a quantity such as 4, 500m or 16Gi"))
			}
		}
	}
	status := field.NewPath("status")
	check(status.Child("capacity"), loose.Status.Capacity)
	check(status.Child("allocatable"), loose.Status.Allocatable)
	return errs
}

// forgetOrigin drops what only means something in the cluster that a node was
// taken from. Without its conditions kwok makes it ready like a new one, unless
// the status is to stay as it is.
func forgetOrigin(node *corev1.Node) {
	node.UID = types.UID("")
	node.ResourceVersion = ""
	node.Generation = 0
	node.CreationTimestamp = metav1.Time{}
	node.ManagedFields = nil
	node.OwnerReferences = nil
	node.Finalizers = nil
	node.DeletionTimestamp = nil
	node.DeletionGracePeriodSeconds = nil
	if hasCustomStatus(node) {
		return
	}
	node.Status = corev1.NodeStatus{
		Capacity:    node.Status.Capacity,
		Allocatable: node.Status.Allocatable,
		Images:      node.Status.Images,
	}
}
