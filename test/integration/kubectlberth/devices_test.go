// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlberth

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// deviceObjects are pods of two namespaces on the nodes, and readers of one of them: one
// who may see nodes, and one who may not.
//
//go:embed testdata/devices.yaml
var deviceObjects string

func TestDevices(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{framework.GPUNode("gpu-1", "Tesla-T4", 1, 16384), framework.GPUNode("gpu-2", "Tesla-T4", 1, 16384)}, Audit: true})
	c.Apply(t, deviceObjects)
	c.Kubectl(t, "-n", "other", "patch", "pod", "urgent", "--subresource=status", "--type=merge", `-p={"status": {"nominatedNodeName": "gpu-2"}}`)
	tests := []struct {
		name       string
		user       string // the administrator if empty
		args       []string
		wantCode   int
		want       []string
		wantStderr string
	}{
		{
			name: "by device",
			want: []string{
				"gpu-1 tesla-t4 0 250m 4096Mi other/theirs (250m 4096Mi), team/ours (500m 8192Mi) -",
				"gpu-2 tesla-t4 0 1000m 16384Mi - room is being made for other/urgent (1000m)",
			},
		},
		{name: "by pod", args: []string{"-n", "other", "--by", "pod"}, want: []string{"other theirs gpu-1 0 250m 4096Mi -", "other urgent - - - waits for 1000m, nominated for gpu-2"}},
		{name: "by namespace", args: []string{"--by", "namespace"}, want: []string{"other 1 250m 4096Mi 0 0", "team 1 500m 8192Mi 0 0"}},
		{name: "one node", args: []string{"gpu-2", "--by", "node"}, want: []string{"gpu-2 Shared tesla-t4 1 1000m 1 0 0 0 room is being made for other/urgent (1000m)"}},
		{
			name: "who may see the pods of a namespace", user: "node-reader", args: []string{"-n", "team"},
			want:       []string{"gpu-1 tesla-t4 0 <=500m 8192Mi team/ours (500m 8192Mi) -"},
			wantStderr: "pods of other namespaces than team were left out: pods is forbidden",
		},
		{
			name: "who may not see nodes", user: "reader", args: []string{"-n", "team", "--by", "pod"},
			want:       []string{"team ours gpu-1 0 500m 8192Mi -"},
			wantStderr: "nodes were left out: nodes is forbidden",
		},
		{
			name: "who insists on all namespaces", user: "reader", args: []string{"-A"}, wantCode: 1,
			wantStderr: "listing pods: pods is forbidden",
		},
		{
			name: "who may see nothing", user: "nobody", args: []string{"-n", "team"}, wantCode: 1,
			wantStderr: "listing pods: pods is forbidden",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kubeconfig := c.Kubeconfig
			if tt.user != "" {
				kubeconfig = c.UserKubeconfig(t, tt.user)
			}
			got := framework.Plugin(t, kubeconfig, "", append([]string{"berth", "devices", "--no-headers"}, tt.args...)...)
			if got.Code != tt.wantCode || !strings.Contains(got.Stderr, tt.wantStderr) || tt.wantStderr == "" && got.Stderr != "" {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", got.Code, tt.wantCode, tt.wantStderr, got.Stderr)
			}
			if diff := cmp.Diff(tt.want, words(got.Stdout)); diff != "" {
				t.Errorf("rows (-want,+got):\n%s", diff)
			}
		})
	}
	t.Run("requests", func(t *testing.T) { checkRequests(t, c) })
	t.Run("completion", func(t *testing.T) { checkCompletion(t, c) })
	t.Run("watch", func(t *testing.T) { checkWatch(t, c) })
	t.Run("an API server that is gone", func(t *testing.T) {
		if err := c.KillComponent(localcluster.APIServer); err != nil {
			t.Fatal(err)
		}
		got := framework.Plugin(t, c.Kubeconfig, "", "berth", "devices", "--request-timeout=5s")
		if got.Code != 1 || !strings.Contains(got.Stderr, "connection refused") {
			t.Errorf("exit code %d, want 1, and that the connection was refused in:\n%s", got.Code, got.Stderr)
		}
	})
}

// checkRequests expects lists alone, in pages.
func checkRequests(t *testing.T, c *framework.Cluster) {
	t.Helper()
	events := c.AuditEvents(t, func(event *auditv1.Event) bool { return event.UserAgent == framework.PluginBinary })
	for i := range events {
		if events[i].Verb != "list" || !strings.Contains(events[i].RequestURI, "limit=500") {
			t.Errorf("%s %s", events[i].Verb, events[i].RequestURI)
		}
	}
	if len(events) == 0 {
		t.Error("the audit log has no request")
	}
}

// checkCompletion asks kubectl, which asks the plugin.
func checkCompletion(t *testing.T, c *framework.Cluster) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"devices", "gpu"}, []string{"gpu-1", "gpu-2"}},
		{[]string{"devices", "gpu-1", "gpu"}, []string{"gpu-2"}},
		{[]string{"devices", "-n", "te"}, []string{"team"}},
		{[]string{"dev"}, []string{"devices"}},
	} {
		got := framework.Plugin(t, c.Kubeconfig, "", append([]string{"__complete", "berth"}, tt.args...)...)
		var completions []string
		for _, line := range words(got.Stdout) {
			if word, _, _ := strings.Cut(line, " "); !strings.HasPrefix(word, ":") {
				completions = append(completions, word)
			}
		}
		if !slices.Equal(completions, tt.want) {
			t.Errorf("%q is completed by %q, want %q\n%s", tt.args, completions, tt.want, got.Stderr)
		}
	}
}

// checkWatch changes a device under a watch.
func checkWatch(t *testing.T, c *framework.Cluster) {
	const patience = 30 * time.Second
	watch := framework.StartProcess(t, framework.PluginBinary, "devices", "--kubeconfig", c.Kubeconfig, "--watch", "--no-headers")
	watch.WaitForOutput(t, patience, "gpu-2   tesla-t4   0   1000m 16384Mi")
	before := strings.Count(watch.Output(), "gpu-1")
	c.Kubectl(t, "annotate", "node", "gpu-2", names.GPUCordonedAnnotation+"=0")
	watch.WaitForOutput(t, patience, "cordoned")
	c.Kubectl(t, "delete", "node", "gpu-2")
	watch.WaitForOutput(t, patience, "gone")
	if after := strings.Count(watch.Output(), "gpu-1"); after != before {
		t.Errorf("the device that did not change was printed %d times more", after-before)
	}
	if code := watch.Stop(t); code != 0 {
		t.Errorf("exit code %d after a signal, want 0", code)
	}
}
