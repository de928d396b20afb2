// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// ReadNodesFile reads Nodes from a YAML or JSON file, as "kubectl get nodes -o yaml"
// prints them and package cluster reads them. What belongs to the cluster that the file
// came from (UIDs, resource versions, conditions, addresses) is dropped, and what a
// kubelet would set is filled in. The error names the file, the document and the field.
func ReadNodesFile(path string) ([]corev1.Node, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--nodes %s: %w", path, err)
	}
	reader := cluster.NewReader()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		place := fmt.Sprintf("%s: document %d", path, number)
		// As a whole, and not item by item: an alias may refer to another item.
		if err == nil {
			document, err = yaml.YAMLToJSONStrict(document)
		}
		if err != nil {
			return nil, fmt.Errorf("--nodes %s: %w", place, err)
		}
		if string(document) == "null" {
			continue // comments alone
		}
		if err := reader.Read(place, document); err != nil {
			return nil, fmt.Errorf("--nodes %w", err)
		}
	}
	read, notes := reader.Cluster()
	switch others := len(read.Pods()) + len(read.Others()); {
	case others > 0:
		return nil, fmt.Errorf("--nodes %s: holds %d object(s) that are not Nodes: remove them", path, others)
	case len(notes) > 0:
		return nil, fmt.Errorf("--nodes %s: holds objects that are not Nodes: remove them: %s", path, notes[0])
	case len(read.Nodes()) == 0:
		return nil, fmt.Errorf("--nodes %s: holds no Node", path)
	}
	nodes := make([]corev1.Node, 0, len(read.Nodes()))
	for _, node := range read.Nodes() {
		forgetOrigin(node)
		completeNode(node)
		nodes = append(nodes, *node)
	}
	if errs := validateNodes(nodes); len(errs) > 0 {
		return nil, fmt.Errorf("--nodes %s: %w", path, errors.Join(errs...))
	}
	return nodes, nil
}

// forgetOrigin drops what belongs to the cluster that a node was taken from. Without its
// conditions kwok makes it ready like a new one, unless the status is to stay as it is.
func forgetOrigin(node *corev1.Node) {
	node.TypeMeta = metav1.TypeMeta{}
	node.ObjectMeta = metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}
	if !hasCustomStatus(node) {
		node.Status = corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, Images: node.Status.Images}
	}
}
