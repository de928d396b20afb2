// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// loadConfig reads the kubeconfig that the flags choose, as kubectl does. Every command uses
// it.
func loadConfig(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, configError(*flags.KubeConfig, *flags.Context, err)
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
