// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

// tokenLife is longer than any test.
const tokenLife = 2 * time.Hour

// ServiceAccountKubeconfig returns a kubeconfig file with a token of its own for
// the ServiceAccount, which must exist.
func (c *Cluster) ServiceAccountKubeconfig(tb testing.TB, namespace, name string) string {
	tb.Helper()
	content, err := localcluster.ServiceAccountKubeconfig(tb.Context(), c.DataDir, namespace, name, tokenLife)
	if err != nil {
		tb.Fatal(err)
	}
	return write(tb, filepath.Join(c.LogDir, namespace+"."+name+".kubeconfig"), content)
}

// StockSchedulerKubeconfig returns a kubeconfig file for system:kube-scheduler,
// the user whose role Kubernetes brings along.
func (c *Cluster) StockSchedulerKubeconfig(tb testing.TB) string {
	tb.Helper()
	return c.UserKubeconfig(tb, "system:kube-scheduler")
}

// UserKubeconfig returns a kubeconfig file with a client certificate for a user.
func (c *Cluster) UserKubeconfig(tb testing.TB, user string, groups ...string) string {
	tb.Helper()
	content, err := localcluster.UserKubeconfig(c.DataDir, user, groups...)
	if err != nil {
		tb.Fatal(err)
	}
	return write(tb, filepath.Join(c.LogDir, strings.ReplaceAll(user, ":", ".")+".kubeconfig"), content)
}

// ClientFor returns a client for a kubeconfig file, without a client-side limit.
func ClientFor(tb testing.TB, kubeconfig string) kubernetes.Interface {
	tb.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}
