// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
)

// owner is what a kubeconfig says of the control plane that wrote it, as an
// extension of its cluster. Other clients ignore it and keep it.
type owner struct {
	// DataDir is the folder, absolute. While the control plane runs, it is locked.
	DataDir string `json:"dataDir"`
}

// withOwner records in a kubeconfig of ours whose it is.
func withOwner(content []byte, dataDir string) ([]byte, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("decoding a kubeconfig: %w", err)
	}
	raw, err := json.Marshal(owner{DataDir: dataDir})
	if err != nil {
		return nil, fmt.Errorf("encoding the owner of a kubeconfig: %w", err)
	}
	config.Clusters[contextName].Extensions = map[string]runtime.Object{
		contextName: &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON},
	}
	return encodeKubeconfig(config)
}

// ownerOf returns the folder of the control plane that wrote a kubeconfig of ours,
// "" when the file is not of ours alone, or does not say.
func ownerOf(content []byte) string {
	if !isOurs(content) {
		return ""
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return ""
	}
	extension, ok := config.Clusters[contextName].Extensions[contextName].(*runtime.Unknown)
	if !ok {
		return ""
	}
	var o owner
	if err := json.Unmarshal(extension.Raw, &o); err != nil {
		return ""
	}
	return o.DataDir
}

// removeOwned removes the kubeconfig of the control plane in dataDir. A file that
// has become another's, or nobody's, is left alone.
func removeOwned(kubeconfig, dataDir string) error {
	content, err := os.ReadFile(kubeconfig)
	if err != nil || ownerOf(content) != dataDir {
		return nil //nolint:nilerr // not ours any more
	}
	if err := os.Remove(kubeconfig); err != nil {
		return fmt.Errorf("removing the kubeconfig: %w", err)
	}
	return nil
}

// checkOwner refuses the kubeconfig of a control plane that still runs, unless it
// is the one whose folder is own.
func checkOwner(dataDir, own string) error {
	if dataDir == "" || dataDir == own {
		return nil
	}
	path := filepath.Join(dataDir, lockName)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone together with its folder
	}
	if err != nil {
		return fmt.Errorf("the file belongs to the control plane in %s, and whether that still runs cannot be told: %w: name another file", dataDir, err)
	}
	defer func() { _ = file.Close() }() // which gives the lock back
	// Shared, so that two that look at the same time do not take each other for the owner.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("the file belongs to the control plane in %s, which still runs (%s): stop that one, or name another file", dataDir, holder(path))
	}
	return nil
}
