// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/manifests"
)

// grantRights creates what the manifests grant to the schedulers. What is there
// already stays as it is.
func grantRights(ctx context.Context, client kubernetes.Interface) error {
	objects, err := rights()
	if err != nil {
		return err
	}
	// The namespace goes first.
	for _, namespaces := range []bool{true, false} {
		for _, object := range objects {
			if _, is := object.(*corev1.Namespace); is != namespaces {
				continue
			}
			if err := create(ctx, client, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("granting the schedulers their rights: %w", err)
			}
		}
	}
	return nil
}

// rights decodes the manifests.
func rights() ([]runtime.Object, error) {
	var objects []runtime.Object
	err := fs.WalkDir(manifests.Rights, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := manifests.Rights.ReadFile(path)
		if err != nil {
			return err
		}
		reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("manifests/%s: %w", path, err)
			}
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
			if runtime.IsMissingKind(err) {
				continue // comments only
			}
			if err != nil {
				return fmt.Errorf("manifests/%s: %w", path, err)
			}
			objects = append(objects, object)
		}
	})
	return objects, err
}

// create creates an object of a kind that the manifests have.
func create(ctx context.Context, client kubernetes.Interface, object runtime.Object) error {
	var err error
	switch o := object.(type) {
	case *corev1.Namespace:
		_, err = client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
	case *corev1.ServiceAccount:
		_, err = client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *rbacv1.ClusterRole:
		_, err = client.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
	case *rbacv1.ClusterRoleBinding:
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
	case *rbacv1.Role:
		_, err = client.RbacV1().Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *rbacv1.RoleBinding:
		_, err = client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("%T is no kind that rights consist of", object)
	}
	return err
}
