// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

func TestAccess(t *testing.T) {
	c := framework.Start(t, framework.Options{})
	c.Kubectl(t, "create", "serviceaccount", "nobody")
	nobody := c.ServiceAccountKubeconfig(t, "default", "nobody")

	t.Run("the API server says which version it is", func(t *testing.T) {
		info, err := c.Client.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := version.ParseSemantic(info.GitVersion); err != nil {
			t.Errorf("clients cannot read the version: %v", err)
		}
		if want := framework.KubernetesVersion(t); info.GitVersion != want {
			t.Errorf("want the version of go.mod, %s, got %s", want, info.GitVersion)
		}
	})

	t.Run("a ServiceAccount has the rights of its role and no more", func(t *testing.T) {
		c.Kubectl(t, "create", "rolebinding", "nobody", "--clusterrole=view", "--serviceaccount=default:nobody")
		client := framework.ClientFor(t, nobody)
		framework.WaitForCondition(t, framework.WaitTimeout, "the role to count", func() (bool, error) {
			_, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
			return err == nil, err
		})
		if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing nodes: want Forbidden, got %v", err)
		}
	})

	t.Run("the scheduler's user has the scheduler's rights", func(t *testing.T) {
		client := framework.ClientFor(t, c.StockSchedulerKubeconfig(t))
		if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("listing nodes: %v", err)
		}
		if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing secrets: want Forbidden, got %v", err)
		}
	})

	t.Run("nobody gets in without a credential", func(t *testing.T) {
		anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(c.Config))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := anonymous.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing namespaces: want Forbidden, got %v", err)
		}
	})

	t.Run("the command kubeconfig", func(t *testing.T) {
		user := printKubeconfig(t, "--data-dir="+c.DataDir, "--user=jane", "--group=system:masters")
		if got := framework.Kubectl(t, user, "auth", "whoami", "-o=jsonpath={.status.userInfo.username}"); got != "jane" {
			t.Errorf("user: want jane, got %q", got)
		}
		for _, tt := range []struct {
			name string
			args []string
			want string
		}{
			{name: "without a folder", args: []string{"--user=jane"}, want: "--data-dir is required"},
			{name: "of an empty folder", args: []string{"--data-dir=" + t.TempDir(), "--user=jane"}, want: "no control plane was ever started there"},
			{name: "for nobody", args: []string{"--data-dir=" + c.DataDir}, want: "--service-account NAMESPACE/NAME or --user NAME"},
			{name: "for a name without namespace", args: []string{"--data-dir=" + c.DataDir, "--service-account=nobody"}, want: `--service-account "nobody": must be NAMESPACE/NAME`},
			{name: "for one that does not exist", args: []string{"--data-dir=" + c.DataDir, "--service-account=default/missing"}, want: "--service-account default/missing: no such ServiceAccount"},
			{name: "for too short a time", args: []string{"--data-dir=" + c.DataDir, "--service-account=default/nobody", "--duration=1m"}, want: "--duration 1m0s"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				output, err := exec.CommandContext(t.Context(), framework.Binary(t, framework.BerthLocal), append([]string{"kubeconfig"}, tt.args...)...).CombinedOutput()
				if err == nil || !strings.Contains(string(output), tt.want) {
					t.Errorf("want an error that contains %q, got %v and:\n%s", tt.want, err, output)
				}
			})
		}
	})
}
