// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

// newComponentCommand is what package controlplane starts this binary with. One
// component a process: their commands each set up logging and signals for the
// whole process, and refuse to do so twice.
func newComponentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "component NAME -- FLAGS",
		Hidden: true,
		// The flags are the component's own.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || args[1] != "--" {
				return usageError{fmt.Errorf("usage: %s component NAME -- FLAGS", program)}
			}
			name, flags := localcluster.Component(args[0]), args[2:]
			switch name {
			case localcluster.Etcd:
				etcdmain.Main(append([]string{string(name)}, flags...))
				return nil
			case localcluster.APIServer:
				return runComponent(apiserver.NewAPIServerCommand(), flags)
			case localcluster.ControllerManager:
				return runComponent(controllermanager.NewControllerManagerCommand(), flags)
			case localcluster.Kwok:
				return runKwok(cmd.Context(), flags)
			}
			return usageError{fmt.Errorf("unknown component %q", name)}
		},
	}
}

// runComponent runs a Kubernetes command as its own binary would.
func runComponent(cmd *cobra.Command, flags []string) error {
	cmd.SetArgs(flags)
	if code := cli.Run(cmd); code != 0 {
		os.Exit(code) // cli.Run has printed why
	}
	return nil
}
