// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// TestWrongConfigurationsStopAtStart runs every file in testdata/wrong. Each
// begins with one or more lines "# want: TEXT", the text that names the field.
// There is no API server behind the kubeconfig: all of it must be noticed
// before the first request.
func TestWrongConfigurationsStopAtStart(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/wrong: %v", err)
	}
	kubeconfig := unreachable(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			flags := settings.New()
			opts := flags.Options
			opts.ConfigFile = file
			opts.Deprecated.Kubeconfig = kubeconfig
			opts.SecureServing.BindPort = 0
			wants := wantLines(t, file)
			if filepath.Base(file) == "gang-queue-not-sorted.yaml" && compat.Release != "1.36" {
				wants = []string{"Coscheduling is in Berth's build for Kubernetes 1.36 alone"}
			}

			// As a start does, and as --validate and --write-config-to do, which need
			// no kubeconfig.
			for name, last := range map[string]func() error{
				"a start":    func() error { return run(ctx, flags) },
				"--validate": func() error { _, err := validate(ctx, flags); return err },
			} {
				err := checkFlags(flags)
				if err == nil {
					err = last()
				}
				if err == nil {
					t.Fatalf("%s: no error", name)
				}
				for _, want := range wants {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: the error does not contain %q:\n%v", name, want, err)
					}
				}
			}
		})
	}
}

// TestValidateShippedProfiles: the files that a start takes pass, without any
// kubeconfig, and nothing is left of the check.
func TestValidateShippedProfiles(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	files, err := filepath.Glob("../../config/berth-scheduler/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" || filepath.Base(file) == "gpu-gang.yaml" && compat.Release != "1.36" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			flags := settings.New()
			flags.Options.ConfigFile = file
			names, err := validate(ctx, flags)
			if err != nil || len(names) == 0 {
				t.Errorf("serves %v: %v", names, err)
			}
		})
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("in the folder for temporary files: %v, %v", left, err)
	}
}

func TestConfigIsRequired(t *testing.T) {
	err := checkFlags(settings.New())
	if err == nil || !strings.Contains(err.Error(), "--config: required") {
		t.Errorf("want an error that names --config, got %v", err)
	}
}

func TestVersion(t *testing.T) {
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "berth-scheduler v") || !strings.Contains(got, "(Kubernetes v") {
		t.Errorf("unexpected version line %q", got)
	}
}

// wantLines returns the texts of the leading "# want: " lines of file.
func wantLines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var wants []string
	for scanner := bufio.NewScanner(bytes.NewReader(data)); scanner.Scan(); {
		text, ok := strings.CutPrefix(scanner.Text(), "# want: ")
		if !ok {
			break
		}
		wants = append(wants, text)
	}
	if len(wants) == 0 {
		t.Fatalf("%s: the first line does not say what is wanted", file)
	}
	return wants
}

// unreachable writes a kubeconfig for a server that nobody listens at.
func unreachable(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
