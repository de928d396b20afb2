// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// printKubeconfig runs "berth-local kubeconfig" and returns a file with its output.
func printKubeconfig(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), framework.Binary(t, framework.BerthLocal), append([]string{"kubeconfig"}, args...)...).Output()
	if err != nil {
		t.Fatalf("berth-local kubeconfig %s: %v", strings.Join(args, " "), err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, output, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDataDirSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := up(t, "--data-dir="+dir, "--nodes=2")
	framework.Kubectl(t, first.kubeconfig, "create", "configmap", "kept", "--from-literal=key=value")
	framework.Kubectl(t, first.kubeconfig, "label", "node", "node-1", "kept=yes")
	framework.Kubectl(t, first.kubeconfig, "create", "rolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:default")
	token := printKubeconfig(t, "--data-dir="+dir, "--service-account=default/default")
	get := []string{"get", "configmap", "kept", "-o", "jsonpath={.data.key}"}
	if got := framework.Kubectl(t, token, get...); got != "value" {
		t.Fatalf("configmap read with the token: want value, got %q", got)
	}

	t.Run("after a SIGKILL of the parent", func(t *testing.T) {
		first.Kill()
		wantNoComponents(t, dir)
		second := up(t, "--data-dir="+dir, "--nodes=3")
		if second.server != first.server {
			t.Errorf("server: want the same one, %s, because its port is free; got %s", first.server, second.server)
		}
		for name, kubeconfig := range map[string]string{"old administrator": first.kubeconfig, "new administrator": second.kubeconfig, "old token": token} {
			if got := framework.Kubectl(t, kubeconfig, get...); got != "value" {
				t.Errorf("configmap read with the credential of the %s: want value, got %q", name, got)
			}
		}
		if got, want := strings.Join(lines(framework.Kubectl(t, second.kubeconfig, "get", "nodes", "-o", "name")), " "), "node/node-0 node/node-1 node/node-2"; got != want {
			t.Errorf("nodes: want %s, got %s", want, got)
		}
		if got := framework.Kubectl(t, second.kubeconfig, "get", "nodes", "-l", "kept=yes", "-o", "name"); strings.TrimSpace(got) != "node/node-1" {
			t.Errorf("nodes with the label of the first run: want node/node-1, got %q", got)
		}
		if code := second.Stop(t); code != 0 {
			t.Errorf("exit code: want 0, got %d", code)
		}
		if _, err := os.Stat(second.kubeconfig); err != nil {
			t.Errorf("the kubeconfig of a kept folder stays: %v", err)
		}
	})

	t.Run("on another port when the old one is taken", func(t *testing.T) {
		listener, err := net.Listen("tcp", strings.TrimPrefix(first.server, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		third := up(t, "--data-dir="+dir)
		if want := "3"; third.nodes != want {
			t.Errorf("nodes in the ready line: want the %s that are kept, got %s", want, third.nodes)
		}
		if third.server == first.server {
			t.Errorf("server: want another one than %s, whose port is taken", first.server)
		}
		if got := framework.Kubectl(t, third.kubeconfig, get...); got != "value" {
			t.Errorf("configmap: want value, got %q", got)
		}
		// The token is as good as ever; only the address in its kubeconfig is old.
		if got := framework.Kubectl(t, token, append(get, "--server="+third.server)...); got != "value" {
			t.Errorf("configmap read with the old token: want value, got %q", got)
		}
	})
}
