// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Manifests returns the Deployments and the Services of YAML or JSON documents, in
// their order, and passes over everything else. It does not look into Lists.
func Manifests(content []byte) ([]appsv1.Deployment, []corev1.Service, error) {
	var deployments []appsv1.Deployment
	var services []corev1.Service
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for document := 1; ; document++ {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return deployments, services, nil
		}
		if err == nil && len(raw) > 0 { // comments only otherwise
			err = collect(raw, &deployments, &services)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", document, err)
		}
	}
}

// collect decodes a document and appends it to where it belongs.
func collect(raw json.RawMessage, deployments *[]appsv1.Deployment, services *[]corev1.Service) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return err
	}
	switch kind.GroupVersionKind() {
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		var deployment appsv1.Deployment
		if err := json.Unmarshal(raw, &deployment); err != nil {
			return fmt.Errorf("a Deployment: %w", err)
		}
		*deployments = append(*deployments, deployment)
	case corev1.SchemeGroupVersion.WithKind("Service"):
		var service corev1.Service
		if err := json.Unmarshal(raw, &service); err != nil {
			return fmt.Errorf("a Service: %w", err)
		}
		*services = append(*services, service)
	}
	return nil
}
