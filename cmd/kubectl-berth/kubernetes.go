// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// list reads the cluster of a kubeconfig: list requests, and nothing else.
func (in *input) list(ctx context.Context, kubeconfig, kubecontext string) error {
	config, err := loadConfig(kubeconfig, kubecontext)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return configError(kubeconfig, kubecontext, err)
	}
	objects, notes, err := cluster.List(ctx, client)
	if err != nil {
		return fmt.Errorf("%s: %w", config.Host, err)
	}
	in.cluster = objects
	in.addNotes(notes)
	in.files = append(in.files, report.File{Path: config.Host})
	return nil
}

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

func (in *input) addNotes(notes []cluster.Note) {
	for _, note := range notes {
		in.notes = append(in.notes, note.String())
	}
}
