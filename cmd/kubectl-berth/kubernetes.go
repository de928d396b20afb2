// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// loadConfig reads a kubeconfig; an empty path means the files that kubectl reads, and
// an empty context the current one.
func loadConfig(path, kubecontext string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubecontext})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, configError(path, kubecontext, err)
	}
	config.UserAgent = program
	return config, nil
}

// configError says which flag, or which variable, an unusable kubeconfig comes from.
func configError(path, kubecontext string, err error) error {
	source := "kubeconfig"
	switch env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); {
	case path != "":
		source = "--kubeconfig " + path
	case env != "":
		source = clientcmd.RecommendedConfigPathEnvVar + "=" + env
	}
	if kubecontext != "" {
		source += " --context " + kubecontext
	}
	return fmt.Errorf("%s: %w", source, err)
}
