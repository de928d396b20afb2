// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// UserKubeconfig returns a kubeconfig whose client certificate names user and
// groups, signed by the authority of dataDir. It works whether the control plane
// runs or not. What the user may do is up to RBAC: system:kube-scheduler, for
// one, has the rights that the API server gives it at its first start.
func UserKubeconfig(dataDir, user string, groups ...string) ([]byte, error) {
	if user == "" {
		return nil, errors.New("--user: must not be empty")
	}
	f := &folder{root: dataDir}
	server, err := serverOf(f.kubeconfig("admin"))
	if err != nil {
		return nil, notACluster(dataDir, err)
	}
	now := time.Now()
	ca, err := loadAuthority(f, now)
	if err != nil {
		return nil, notACluster(dataDir, err)
	}
	return ca.clientKubeconfig(now, server, user, groups, nil)
}

// ServiceAccountKubeconfig returns a kubeconfig with a token that the API server
// of dataDir issues for the ServiceAccount namespace/name, valid for the given
// time (at least ten minutes; 0 means one hour, the API server's default). The
// control plane must run and the ServiceAccount must exist.
func ServiceAccountKubeconfig(ctx context.Context, dataDir, namespace, name string, valid time.Duration) ([]byte, error) {
	f := &folder{root: dataDir}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig("admin"))
	if err != nil {
		return nil, notACluster(dataDir, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	request := &authenticationv1.TokenRequest{}
	if valid != 0 {
		seconds := int64(valid / time.Second)
		request.Spec.ExpirationSeconds = &seconds
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("--service-account %s/%s: no such ServiceAccount: create it first: %w", namespace, name, err)
	case apierrors.IsInvalid(err):
		return nil, fmt.Errorf("--duration %v: %w", valid, err)
	case err != nil:
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s from %s: %w", namespace, name, config.Host, err)
	}
	user := strings.Join([]string{"system:serviceaccount", namespace, name}, ":")
	return encodeKubeconfig(config.Host, config.CAData, user, &clientcmdapi.AuthInfo{Token: answer.Status.Token}, nil)
}

// AdminConfig returns the administrator's client configuration for the control
// plane of dataDir, without a client-side rate limit and with protobuf for the
// types that have it.
func AdminConfig(dataDir string) (*rest.Config, error) {
	f := &folder{root: dataDir}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig("admin"))
	if err != nil {
		return nil, notACluster(dataDir, err)
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

func notACluster(dataDir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--data-dir %s: no control plane was ever started there: %w", dataDir, err)
	}
	return fmt.Errorf("--data-dir %s: %w", dataDir, err)
}
