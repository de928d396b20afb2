// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
)

const pendingPod = `
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: team}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, image: example.com/app, resources: {requests: {cpu: "CPU"}}}]
`

// TestExplainExitCodes runs whole command lines.
func TestExplainExitCodes(t *testing.T) {
	onFiles := []string{"--snapshot", objects, "--config", gpuProfile, "-n", "team"}
	broken := file(t, "broken.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n")
	noNodes := file(t, "none.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n")
	for _, tt := range []struct {
		name  string
		args  []string
		stdin string
		want  int
		// stdout and stderr are in the output.
		stdout, stderr string
	}{
		{name: "a pod that fits", args: append([]string{"pod/share"}, onFiles...), want: exitOK, stdout: "Pod team/share fits"},
		{name: "a pod that runs", args: append([]string{"pod", "running"}, onFiles...), want: exitOK, stdout: "would get the same node now"},
		{name: "a pod that does not fit", args: append([]string{"po/too-large"}, onFiles...), want: exitNotPlaced, stdout: "Insufficient cpu"},
		{name: "one that does not exist yet fits", args: append([]string{"-f", "-"}, onFiles...), stdin: strings.Replace(pendingPod, "CPU", "1", 1), want: exitOK, stdout: "Pod team/new fits"},
		{name: "and one that does not", args: append([]string{"-f", "-"}, onFiles...), stdin: strings.Replace(pendingPod, "CPU", "9", 1), want: exitNotPlaced, stdout: "Insufficient cpu"},
		{name: "help", args: []string{"--help"}, want: exitOK, stdout: "Exit codes:"},

		{name: "nothing", want: exitUsage, stderr: "pod/NAME"},
		{name: "another kind", args: append([]string{"deployment/web"}, onFiles...), want: exitUsage, stderr: "only pods"},
		{name: "a name without a kind", args: append([]string{"share"}, onFiles...), want: exitUsage, stderr: "pod/NAME"},
		{name: "both", args: append([]string{"pod/share", "-f", "-"}, onFiles...), want: exitUsage, stderr: "-f:"},
		{name: "another output", args: append([]string{"pod/share", "-o", "csv"}, onFiles...), want: exitUsage, stderr: "-o:"},
		{name: "a cluster and files", args: append([]string{"pod/share", "--context", "c"}, onFiles...), want: exitUsage, stderr: "--snapshot:"},
		{name: "no goroutines", args: append([]string{"pod/share", "--parallel", "0"}, onFiles...), want: exitUsage, stderr: "--parallel:"},
		{name: "an unknown flag", args: []string{"--why"}, want: exitUsage, stderr: "--help"},

		{name: "no such pod", args: append([]string{"pod/gone"}, onFiles...), want: exitFailed, stderr: "pod team/gone: not found"},
		{name: "no such file", args: []string{"pod/share", "--snapshot", "gone.yaml"}, want: exitFailed, stderr: "--snapshot:"},
		{name: "no nodes", args: []string{"pod/share", "--snapshot", noNodes}, want: exitFailed, stderr: "no nodes"},
		{name: "a profile that does not decode", args: []string{"pod/share", "-n", "team", "--snapshot", objects, "--config", broken}, want: exitFailed, stderr: `unknown field "profile"`},
		{name: "a manifest without pods", args: append([]string{"-f", noNodes}, onFiles...), want: exitFailed, stderr: "no pods without a node"},
		{name: "a manifest with a field that does not exist", args: append([]string{"-f", "-"}, onFiles...), stdin: strings.NewReplacer("CPU", "1", "image", "imagee").Replace(pendingPod), want: exitFailed, stderr: "imagee"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := execute(t, tt.stdin, append([]string{"explain"}, tt.args...)...)
			if code != tt.want || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("exit code %d, want %d; want %q on stdout:\n%s\nand %q on stderr:\n%s", code, tt.want, tt.stdout, stdout, tt.stderr, stderr)
			}
		})
	}
}

// TestExplainOutput reads JSON and YAML, which say the same, and the same each time.
func TestExplainOutput(t *testing.T) {
	args := []string{"explain", "pod/too-large", "-n", "team", "--snapshot", objects, "--config", gpuProfile, "-o"}
	_, stdout, _ := execute(t, "", append(args, outputJSON)...)
	var fromJSON, fromYAML explain.Explanation
	if err := json.Unmarshal([]byte(stdout), &fromJSON); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if fromJSON.State != explain.Unschedulable || len(fromJSON.Groups) == 0 || len(fromJSON.Changes) == 0 || fromJSON.FormatVersion != explain.FormatVersion {
		t.Errorf("want a state, groups of nodes and changes:\n%s", stdout)
	}
	if _, again, _ := execute(t, "", append(args, outputJSON, "--parallel", "3")...); again != stdout {
		t.Errorf("another time, with other goroutines (-first,+second):\n%s", cmp.Diff(stdout, again))
	}
	_, stdout, _ = execute(t, "", append(args, outputYAML)...)
	if err := yaml.Unmarshal([]byte(stdout), &fromYAML); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if diff := cmp.Diff(fromJSON.Answer, fromYAML.Answer); diff != "" {
		t.Errorf("YAML says something else (-JSON,+YAML):\n%s", diff)
	}
}

// TestExplainWorkload explains the pods of a Deployment together: some fit.
func TestExplainWorkload(t *testing.T) {
	deployment := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: berth-scheduler
      containers: [{name: main, image: example.com/app, resources: {requests: {cpu: "4"}}}]
`
	code, stdout, stderr := execute(t, deployment, "explain", "-f", "-", "-n", "team", "--snapshot", objects, "--config", gpuProfile)
	if code != exitNotPlaced || !strings.Contains(stdout, "Deployment team/web is Pending: 3 of 5 pods find a node") || !strings.Contains(stdout, "ask for 3 pods instead of 5") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestExplainLostServer: an API server that goes away between two lists is an error that
// names it and what was being read.
func TestExplainLostServer(t *testing.T) {
	t.Parallel() // the client tries again for ten seconds
	for _, tt := range []struct {
		name, until, want string
	}{
		{"from the start", "/nothing", "listing namespaces"},
		{"half-way", "/api/v1/nodes", "listing nodes"},
		{"before the last list", "/apis/coordination.k8s.io", "/leases"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.until == "/nothing" || strings.HasPrefix(r.URL.Path, tt.until) {
					gone.Store(true)
				}
				if gone.Load() {
					connection, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						_ = connection.Close()
					}
					return
				}
				if r.Method != http.MethodGet {
					t.Errorf("a request that is no list: %s %s", r.Method, r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`)
			}))
			defer server.Close()
			kubeconfig := file(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u, namespace: team}}]
clusters: [{name: c, cluster: {server: %s}}]
users: [{name: u, user: {token: t}}]
`, server.URL))
			code, stdout, stderr := execute(t, "", "explain", "pod/share", "--kubeconfig", kubeconfig)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, server.URL) || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, want %d and %q on stderr:\n%s%s", code, exitFailed, tt.want, stdout, stderr)
			}
		})
	}
}
