// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

func TestWithKubeconfigFlag(t *testing.T) {
	const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	tests := []struct {
		name, content, flag string
		want                string
		wantCopy            bool
	}{
		{name: "no flag", content: header + "clientConnection: {kubeconfig: a}\n", want: "a"},
		{name: "flag alone", content: header, flag: "b", want: "b", wantCopy: true},
		{name: "flag beside other settings", content: header + "clientConnection: {qps: 7}\n", flag: "b", want: "b", wantCopy: true},
		{name: "the file has precedence", content: header + "clientConnection: {kubeconfig: a}\n", flag: "b", want: "a", wantCopy: true},
		{name: "more than a pipe holds", content: header + "extenders: [{urlPrefix: 'http://" + strings.Repeat("x", 200_000) + "'}]\n", flag: "b", want: "b", wantCopy: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			path, done, err := withKubeconfigFlag(file, tt.flag)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if got := path != file; got != tt.wantCopy {
				t.Errorf("a copy was made: %t, want %t", got, tt.wantCopy)
			}
			logger, _ := ktesting.NewTestContext(t)
			config, err := options.LoadConfigFromFile(logger, path)
			if err != nil {
				t.Fatal(err)
			}
			if got := config.ClientConnection.Kubeconfig; got != tt.want {
				t.Errorf("kubeconfig %q, want %q", got, tt.want)
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("in the folder for temporary files: %v, %v", left, err)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("the file itself: %v", err)
			}
		})
	}
}
