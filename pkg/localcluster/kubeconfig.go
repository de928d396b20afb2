// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName names cluster and context in every kubeconfig that this package
// makes. It is also how a file is recognised as one that may be overwritten.
const contextName = "berth-local"

// The client identities with a kubeconfig in the folder: the name of the file,
// the user and the groups that the certificate carries.
const (
	adminUser             = "berth-local-admin"
	adminGroup            = "system:masters"
	controllerManagerUser = "system:kube-controller-manager"
	kwokUser              = "berth-local:kwok"
)

// owner is what a kubeconfig says of the control plane that wrote it, as an
// extension of its cluster. Other clients ignore it and keep it.
type owner struct {
	// DataDir is the folder, absolute. While the control plane runs, it is locked.
	DataDir string `json:"dataDir"`
}

// encodeKubeconfig returns a kubeconfig for one user of one server. With an owner it
// says whose it is.
func encodeKubeconfig(server string, caPEM []byte, user string, auth *clientcmdapi.AuthInfo, own *owner) ([]byte, error) {
	cluster := &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: caPEM}
	if own != nil {
		raw, err := json.Marshal(own)
		if err != nil {
			return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
		}
		cluster.Extensions = map[string]runtime.Object{contextName: &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}}
	}
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{contextName: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: auth},
		Contexts:       map[string]*clientcmdapi.Context{contextName: {Cluster: contextName, AuthInfo: user}},
		CurrentContext: contextName,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return out, nil
}

// clientKubeconfig issues a client certificate and wraps it in a kubeconfig.
func (a *authority) clientKubeconfig(now time.Time, server, user string, groups []string, own *owner) ([]byte, error) {
	certPEM, keyPEM, err := a.issueClient(now, user, groups)
	if err != nil {
		return nil, err
	}
	auth := &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	return encodeKubeconfig(server, encodeCert(a.cert.Raw), user, auth, own)
}

// writeKubeconfigs writes the kubeconfig of every client that the control plane
// needs into the folder.
func writeKubeconfigs(f *folder, ca *authority, now time.Time, server string) error {
	for _, client := range []struct {
		file, user string
		groups     []string
	}{
		{file: "admin", user: adminUser, groups: []string{adminGroup}},
		{file: string(ControllerManager), user: controllerManagerUser},
		{file: string(Kwok), user: kwokUser},
	} {
		config, err := ca.clientKubeconfig(now, server, client.user, client.groups, &owner{DataDir: f.root})
		if err != nil {
			return err
		}
		if err := writeFile(f.kubeconfig(client.file), config); err != nil {
			return unwritable(f.root, err)
		}
	}
	return nil
}

// writeFile replaces path as a whole: a reader sees the old file or the new one.
func writeFile(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// checkKubeconfigTarget says, before anything is started, whether path can be
// written, and refuses a file that something else wrote: other clusters' and
// people's credentials live in files of this kind. Nor may it be that of another
// control plane that runs; own is the folder of this one, if it has one already.
func checkKubeconfigTarget(path, own string) error {
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("--kubeconfig %s: cannot write the file: %w: name another one", path, err)
	case len(content) == 0:
	default:
		cluster := ownCluster(content)
		if cluster == nil {
			return fmt.Errorf("--kubeconfig %s: the file exists and berth-local did not write it: name another one", path)
		}
		if err := checkOwner(ownerOf(cluster), own); err != nil {
			return fmt.Errorf("--kubeconfig %s: %w", path, err)
		}
	}
	probe, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--kubeconfig %s: cannot write the file: %w: name one in a folder that exists and that you can write to", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// ownCluster returns our cluster of a kubeconfig that holds nothing else, or nil.
func ownCluster(content []byte) *clientcmdapi.Cluster {
	config, err := clientcmd.Load(content)
	if err != nil || len(config.Clusters) != 1 {
		return nil
	}
	return config.Clusters[contextName]
}

// ownerOf returns the folder of the control plane that a cluster belongs to, "" when
// it does not say.
func ownerOf(cluster *clientcmdapi.Cluster) string {
	var o owner
	if extension, ok := cluster.Extensions[contextName].(*runtime.Unknown); ok {
		_ = json.Unmarshal(extension.Raw, &o) // one that cannot be read does not say
	}
	return o.DataDir
}

// removeOwned removes the kubeconfig of the control plane in dataDir. A file that
// belongs to another control plane now, or to none, is left alone.
func removeOwned(kubeconfig, dataDir string) error {
	content, err := os.ReadFile(kubeconfig)
	if cluster := ownCluster(content); err != nil || cluster == nil || ownerOf(cluster) != dataDir {
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
	// Shared, so that two that check at the same time do not take each other for the owner.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("the file belongs to the control plane in %s, which still runs (%s): stop that one, or name another file", dataDir, lockHolder(path))
	}
	return nil
}

// serverOf returns the server that a kubeconfig file of ours points at.
func serverOf(path string) (string, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	cluster, ok := config.Clusters[contextName]
	if !ok {
		return "", fmt.Errorf("%s: no cluster %q in it", path, contextName)
	}
	return cluster.Server, nil
}
