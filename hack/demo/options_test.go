// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkout makes an empty checkout and works in a folder below it. It returns
// the checkout's path without symbolic links, as the program sees it.
func checkout(t *testing.T) string {
	t.Helper()
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(parent, "berth")
	touch(t, filepath.Join(root, "hack", "demo", "nodes.yaml"))
	t.Chdir(filepath.Join(root, "hack"))
	return root
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// Flags and environment mean the same, and the environment is what make passes:
// empty where nothing was said.
func TestParseOptions(t *testing.T) {
	root := checkout(t)
	sample := filepath.Join(root, "hack", "demo", "sample", "shop.yaml")
	kept := filepath.Join(root, "out", "demo")
	own := filepath.Join(root, "hack", "own.yaml")
	touch(t, own)
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want options
	}{
		{name: "nothing said", env: map[string]string{"KEEP": "", "DEMO_BREAK": ""}, want: options{root: root, keptDir: kept, shop: sample}},
		{name: "environment", env: map[string]string{"KEEP": "1", "DEMO_BREAK": "1"}, want: options{root: root, keptDir: kept, shop: sample, keep: true, breakRule: true}},
		{name: "environment says no", env: map[string]string{"KEEP": "0", "DEMO_BREAK": "false"}, want: options{root: root, keptDir: kept, shop: sample}},
		{name: "flags", args: []string{"--keep", "--break", "--shop=own.yaml"}, want: options{root: root, keptDir: kept, shop: own, keep: true, breakRule: true}},
		{name: "flag against the environment", args: []string{"--keep=false"}, env: map[string]string{"KEEP": "1"}, want: options{root: root, keptDir: kept, shop: sample}},
		{name: "own sample", args: []string{"--shop", "sample"}, want: options{root: root, keptDir: kept, shop: sample}},
		{name: "folder", args: []string{"--dir=there"}, want: options{root: root, keptDir: filepath.Join(root, "hack", "there"), shop: sample}},
		{name: "stop", args: []string{"--stop"}, want: options{root: root, keptDir: kept, shop: sample, stop: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseOptions(tt.args, environment(tt.env), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("unexpected options (-want,+got):\n%s", diff)
			}
		})
	}
}

// Online Boutique is used where the shared folder stands beside the checkout,
// unless the sample is asked for.
func TestParseOptionsSharedShop(t *testing.T) {
	root := checkout(t)
	shared := filepath.Join(root, sharedShop)
	touch(t, shared)
	for arg, want := range map[string]string{"--shop=": shared, "--shop=sample": filepath.Join(root, "hack", "demo", "sample", "shop.yaml")} {
		got, err := parseOptions([]string{arg}, environment(nil), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got.shop != want {
			t.Errorf("%s: got shop %s, want %s", arg, got.shop, want)
		}
	}
}

// Each mistake is an error that names the flag or the variable.
func TestParseOptionsRefuses(t *testing.T) {
	checkout(t)
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{name: "unknown flag", args: []string{"--bogus"}, want: "-bogus"},
		{name: "argument", args: []string{"now"}, want: `unexpected argument "now"`},
		{name: "environment that is neither yes nor no", env: map[string]string{"KEEP": "maybe"}, want: `KEEP="maybe": must be 1 or 0`},
		{name: "shop that does not exist", args: []string{"--shop=nowhere.yaml"}, want: "--shop nowhere.yaml: there is no such file"},
		{name: "shop that is a folder", args: []string{"--shop=demo"}, want: "--shop demo: there is no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseOptions(tt.args, environment(tt.env), io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	t.Run("outside a checkout", func(t *testing.T) {
		t.Chdir(t.TempDir())
		_, err := parseOptions(nil, environment(nil), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "is not inside a checkout of Berth") {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("help", func(t *testing.T) {
		var usage strings.Builder
		_, err := parseOptions([]string{"--help"}, environment(nil), &usage)
		if !errors.Is(err, flag.ErrHelp) || !strings.Contains(usage.String(), "-keep") {
			t.Errorf("got error %v and usage %q", err, usage.String())
		}
	})
}
