// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// deadCluster is the kubeconfig of a cluster that nobody serves.
const deadCluster = `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}]}`

// kubeconfig writes one, and returns its path.
func kubeconfig(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMistakesOnTheCommandLineNameTheFlag(t *testing.T) {
	broken, dead := kubeconfig(t, "not: [a kubeconfig"), kubeconfig(t, deadCluster)
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"an unknown fit", []string{"--fit=best"}, []string{`--fit: Unsupported value: "best": supported values: "constraints", "resources", "none"`}},
		{"no workers", []string{"--workers=0"}, []string{"--workers: Invalid value: 0: must be at least 1"}},
		{"workers that are no number", []string{"--workers=many"}, []string{"--workers", `"many"`}},
		{"a bad namespace", []string{"--namespaces=good,Bad"}, []string{"--namespaces", `"Bad"`}},
		{"an empty list of namespaces", []string{"--namespaces="}, []string{"--namespaces", "Required"}},
		{"no scheduler name", []string{"--scheduler-name="}, []string{"--scheduler-name", "Invalid"}},
		{"a negative seed", []string{"--seed=-1"}, []string{"--seed", "-1"}},
		{"a scheduler name that no pod can have", []string{"--scheduler-name=Random_1"}, []string{`--scheduler-name: Invalid value: "Random_1"`}},
		{"no back-off", []string{"--pod-initial-backoff=0s"}, []string{`--pod-initial-backoff: Invalid value: "0s"`}},
		{"a back-off that shrinks", []string{"--pod-max-backoff=1ms"}, []string{`--pod-max-backoff: Invalid value: "1ms": must not be less than --pod-initial-backoff`}},
		{"three mistakes at once", []string{"--scheduler-name=", "--workers=-1", "--fit="}, []string{"--scheduler-name", "--workers", "--fit"}},
		{"a back-off without a unit", []string{"--pod-max-backoff=10"}, []string{"--pod-max-backoff", `"10"`}},
		{"an unknown flag", []string{"--nodes=3"}, []string{"unknown flag: --nodes"}},
		{"leader election, which it has not", []string{"--leader-elect=false"}, []string{"unknown flag: --leader-elect"}},
		{"an argument", []string{"default"}, []string{`"default"`}},
		{"no cluster", nil, []string{"--kubeconfig", "in-cluster"}},
		{"a kubeconfig that is not there", []string{"--kubeconfig=/does/not/exist"}, []string{"--kubeconfig=/does/not/exist", "no such file"}},
		{"a cluster that does not answer", []string{"--kubeconfig=" + dead}, []string{"connection refused"}},
		{"a kubeconfig that is broken", []string{"--kubeconfig=" + broken}, []string{"--kubeconfig=" + broken}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Set in every pod, which this test may run in.
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			cmd := newCommand()
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			cmd.SetArgs(tt.args)
			err := cmd.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	var output bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs([]string{"--version"})
	cmd.SetOut(&output)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := output.String(); !strings.HasPrefix(got, "random-scheduler v") || !strings.Contains(got, "(Kubernetes v") {
		t.Errorf("--version prints %q", got)
	}
}

// TestNoLimitIsNotClientGosDefault: client-go takes a QPS of 0 for 5.
func TestNoLimitIsNotClientGosDefault(t *testing.T) {
	file := kubeconfig(t, deadCluster)
	for qps, want := range map[float32]float32{0: -1, 7.5: 7.5} {
		config, err := restConfig(file, qps, 1)
		if err != nil {
			t.Fatal(err)
		}
		if config.QPS != want {
			t.Errorf("--kube-api-qps=%v gives a QPS of %v, want %v", qps, config.QPS, want)
		}
	}
}

// TestReadmeListsEveryFlag: a flag that is not in the table does not exist for
// its users.
func TestReadmeListsEveryFlag(t *testing.T) {
	content, err := os.ReadFile("../../pkg/randombinder/README.md")
	if err != nil {
		t.Fatal(err)
	}
	newCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		switch {
		case strings.HasPrefix(flag.Name, "log"), flag.Name == "v", flag.Name == "vmodule":
			return // Kubernetes' own, named there as groups
		}
		if want := "`--" + flag.Name + "`"; !strings.Contains(string(content), want) {
			t.Errorf("the README does not mention %s", want)
		}
	})
}
