// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// list reads the cluster of a kubeconfig: list requests, and nothing else.
func (in *input) list(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	config.UserAgent = program
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
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

func (in *input) addNotes(notes []cluster.Note) {
	for _, note := range notes {
		in.notes = append(in.notes, note.String())
	}
}
