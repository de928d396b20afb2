// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

func newKubeconfigCommand() *cobra.Command {
	var dataDir, serviceAccount, user string
	var groups []string
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig for a ServiceAccount or a user",
		Long: `Print a kubeconfig for the control plane in --data-dir: with a token that the
running API server issues for a ServiceAccount, or with a client certificate for a
user. What either may do is up to RBAC; system:kube-scheduler has a role from the
start.`,
		Example: `  berth-local kubeconfig --data-dir dev --service-account berth-system/berth-scheduler
  berth-local kubeconfig --data-dir dev --user system:kube-scheduler`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dataDir == "" {
				return usageError{errors.New("--data-dir is required: the ready line of \"up\" names the folder")}
			}
			var content []byte
			var err error
			switch {
			case (serviceAccount == "") == (user == ""):
				return usageError{errors.New("give either --service-account NAMESPACE/NAME or --user NAME")}
			case user != "":
				if cmd.Flags().Changed("duration") {
					return usageError{errors.New("--duration goes with --service-account; a user's certificate is valid for a year")}
				}
				content, err = localcluster.UserKubeconfig(dataDir, user, groups...)
			default:
				if len(groups) > 0 {
					return usageError{errors.New("--group goes with --user; a ServiceAccount's groups are given")}
				}
				namespace, name, ok := strings.Cut(serviceAccount, "/")
				if !ok || namespace == "" || name == "" {
					return usageError{fmt.Errorf("--service-account %q: must be NAMESPACE/NAME", serviceAccount)}
				}
				content, err = localcluster.ServiceAccountKubeconfig(cmd.Context(), dataDir, namespace, name, duration)
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dataDir, "data-dir", "", "folder of the control plane (required)")
	flags.StringVar(&serviceAccount, "service-account", "", "NAMESPACE/NAME of a ServiceAccount")
	flags.StringVar(&user, "user", "", "name of a user, such as system:kube-scheduler")
	flags.StringSliceVar(&groups, "group", nil, "group of the user (repeatable)")
	flags.DurationVar(&duration, "duration", 24*time.Hour, "how long the ServiceAccount's token is valid, at least 10m")
	return cmd
}
