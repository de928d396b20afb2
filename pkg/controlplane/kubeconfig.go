// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
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

// newKubeconfig builds a kubeconfig for one user of one server.
func newKubeconfig(server string, caPEM []byte, user string, auth *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	cluster := clientcmdapi.NewCluster()
	cluster.Server = server
	cluster.CertificateAuthorityData = caPEM
	config.Clusters[contextName] = cluster
	config.AuthInfos[user] = auth
	context := clientcmdapi.NewContext()
	context.Cluster = contextName
	context.AuthInfo = user
	config.Contexts[contextName] = context
	config.CurrentContext = contextName
	return config
}

// clientKubeconfig issues a client certificate and wraps it in a kubeconfig.
func (a *authority) clientKubeconfig(now time.Time, server, user string, groups []string) ([]byte, error) {
	certPEM, keyPEM, err := a.issueClient(now, user, groups)
	if err != nil {
		return nil, err
	}
	caPEM, err := certutil.EncodeCertificates(a.cert)
	if err != nil {
		return nil, fmt.Errorf("encoding the certificate authority: %w", err)
	}
	auth := clientcmdapi.NewAuthInfo()
	auth.ClientCertificateData = certPEM
	auth.ClientKeyData = keyPEM
	return encodeKubeconfig(newKubeconfig(server, caPEM, user, auth))
}

func encodeKubeconfig(config *clientcmdapi.Config) ([]byte, error) {
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return out, nil
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
		config, err := ca.clientKubeconfig(now, server, client.user, client.groups)
		if err != nil {
			return err
		}
		if config, err = withOwner(config, f.root); err != nil {
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
	case len(content) > 0 && !isOurs(content):
		return fmt.Errorf("--kubeconfig %s: the file exists and berth-local did not write it: name another one", path)
	default:
		if err := checkOwner(ownerOf(content), own); err != nil {
			return fmt.Errorf("--kubeconfig %s: %w", path, err)
		}
	}
	probe, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("--kubeconfig %s: cannot write the file: %w: name one in a folder that exists and that you can write to", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// isOurs reports whether a kubeconfig holds our cluster and nothing else.
func isOurs(content []byte) bool {
	config, err := clientcmd.Load(content)
	return err == nil && len(config.Clusters) == 1 && config.Clusters[contextName] != nil
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
