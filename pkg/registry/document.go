// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

const configKind = "KubeSchedulerConfiguration"

// CheckDocument refuses what the decoder of a KubeSchedulerConfiguration would
// silently leave out, and the files for which its error says little: further
// documents, and another kind or version.
func CheckDocument(content []byte) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	documents := 0
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var value any
		if err := yaml.Unmarshal(document, &value); err != nil {
			return err
		}
		if value != nil {
			documents++
		}
	}
	if documents != 1 {
		return fmt.Errorf("want one YAML document, a %s, and it holds %d", configKind, documents)
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return err
	}
	if want := configv1.SchemeGroupVersion.String(); meta.APIVersion != want {
		return fmt.Errorf("apiVersion: is %q, must be %q", meta.APIVersion, want)
	}
	if meta.Kind != configKind {
		return fmt.Errorf("kind: is %q, must be %q", meta.Kind, configKind)
	}
	return nil
}
