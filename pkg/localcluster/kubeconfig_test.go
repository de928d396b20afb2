// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestCheckKubeconfigTarget(t *testing.T) {
	encoded := func(own *owner) []byte {
		content, err := encodeKubeconfig("https://127.0.0.1:1", nil, "jane", clientcmdapi.NewAuthInfo(), own)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	both, err := clientcmd.Load(encoded(nil))
	if err != nil {
		t.Fatal(err)
	}
	both.Clusters["prod"] = clientcmdapi.NewCluster()
	merged, err := clientcmd.Write(*both)
	if err != nil {
		t.Fatal(err)
	}
	own, running, ended := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{own, running, ended} {
		lock, err := lockFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if dir == ended {
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Cleanup(func() { _ = lock.Close() })
	}
	ownedBy := func(dir string) []byte { return encoded(&owner{DataDir: dir}) }
	for _, tt := range []struct {
		name    string
		content []byte
		missing bool
		want    string // part of the error, empty for none
	}{
		{name: "a new file", missing: true},
		{name: "an empty file"},
		{name: "one of ours", content: encoded(nil)},
		{name: "this control plane's own", content: ownedBy(own)},
		{name: "that of one that runs", content: ownedBy(running), want: "which still runs (process "},
		{name: "that of one that has ended", content: ownedBy(ended)},
		{name: "that of one whose folder is gone", content: ownedBy(filepath.Join(ended, "gone"))},
		{name: "one of ours with another cluster in it", content: merged, want: "berth-local did not write it"},
		{name: "something else", content: []byte("secret: yes\n"), want: "berth-local did not write it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if !tt.missing {
				if err := os.WriteFile(path, tt.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkKubeconfigTarget(path, own)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("want no error, got %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path)):
				t.Errorf("want an error that contains %q and the file, got %v", tt.want, err)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if entry.Name() != "kubeconfig" {
					t.Errorf("left behind: %s", entry.Name())
				}
			}
			if tt.missing && len(entries) != 0 {
				t.Error("the check created the file")
			}
		})
	}
}
