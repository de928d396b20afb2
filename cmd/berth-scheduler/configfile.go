// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// checkFile decodes the file as upstream will, strictly, and validates what can be
// validated before anything is built from it. The plugins validate their arguments
// again when they are built, but then one at a time and without knowing where in
// the file they stand, and only once a kubeconfig was found.
func checkFile(logger klog.Logger, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := registry.CheckDocument(content); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	config, err := options.LoadConfigFromFile(logger, file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := registry.ValidateConfiguration(config); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// withKubeconfigFlag makes --kubeconfig count beside --config, where upstream
// ignores it without a word: it returns the path of a copy of the file, in
// clientConnection.kubeconfig of which it stands, and a function that removes the
// copy. A kubeconfig in the file has precedence. Without the flag it returns the
// file itself.
func withKubeconfigFlag(file, kubeconfig string) (path string, remove func(), err error) {
	nothing := func() {}
	if kubeconfig == "" || file == "" {
		return file, nothing, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nothing, fmt.Errorf("--config: %w", err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return "", nothing, fmt.Errorf("%s: %w", file, err)
	}
	connection, ok := config["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		config["clientConnection"] = connection
	}
	if set, ok := connection["kubeconfig"].(string); ok && set != "" {
		return file, nothing, nil
	}
	connection["kubeconfig"] = kubeconfig
	if content, err = yaml.Marshal(config); err != nil {
		return "", nothing, fmt.Errorf("%s: %w", file, err)
	}
	dir, err := os.MkdirTemp("", program+"-")
	if err != nil {
		return "", nothing, fmt.Errorf("--kubeconfig beside --config needs a temporary file: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = dir + "/config.yaml"
	if err := os.WriteFile(path, content, 0o600); err != nil {
		remove()
		return "", nothing, fmt.Errorf("--kubeconfig beside --config needs a temporary file: %w", err)
	}
	return path, remove, nil
}
