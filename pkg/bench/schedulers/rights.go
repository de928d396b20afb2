// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/berth-scheduler/berth/manifests"
)

// grantRights creates what the manifests grant to the schedulers. What is there
// already stays as it is.
func grantRights(ctx context.Context, client dynamic.Interface) error {
	objects, err := rights()
	if err != nil {
		return err
	}
	// The namespace goes first.
	for _, namespaces := range []bool{true, false} {
		for i := range objects {
			if (objects[i].GetKind() == "Namespace") != namespaces {
				continue
			}
			resource, _ := meta.UnsafeGuessKindToResource(objects[i].GroupVersionKind())
			_, err := client.Resource(resource).Namespace(objects[i].GetNamespace()).Create(ctx, &objects[i], metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("granting the schedulers their rights: %w", err)
			}
		}
	}
	return nil
}

// rights decodes the manifests.
func rights() ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	err := fs.WalkDir(manifests.Rights, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := manifests.Rights.ReadFile(path)
		if err != nil {
			return err
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content)); ; {
			var object unstructured.Unstructured
			switch err := decoder.Decode(&object.Object); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return fmt.Errorf("manifests/%s: %w", path, err)
			case len(object.Object) > 0: // not comments only
				objects = append(objects, object)
			}
		}
	})
	return objects, err
}
