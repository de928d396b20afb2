// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/diagnose/check"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// checkOptions are the flags of check.
type checkOptions struct {
	clusterInput

	config   string
	flags    []string
	output   string
	severity string
}

// What --severity takes.
const (
	severityWarning = "warning"
	severityError   = "error"
)

func newCheckCommand() *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check [--config PROFILE.yaml] [-f FILE…] [-- FLAGS OF THE SCHEDULER]",
		Short: "Find what is wrong with a profile, or with a cluster that Berth serves",
		Long: `Find what is wrong, and say what to do about it: what berth-scheduler rejects or warns
about, without starting it.

With --config only, it checks that file and contacts no cluster: field by field,
what keeps a scheduler from starting with it.

Otherwise it is about a cluster: the profiles of the Deployments of berth-scheduler,
their permissions, CustomResourceDefinitions and leases; admission policies that are not
installed, not bound, left over or do not fit the profile; nodes with the taint of a
tenant and without its label, or whose labels about devices contradict each other;
devices that are allocated twice or used without an allocation record; pods whose
schedulerName no scheduler serves, or that ask for what their profile does not run.

With --config and --kubeconfig or --context, the cluster is checked for a scheduler
with that profile and with the credential of the kubeconfig: one that does not run as
a Deployment.

The flags of a scheduler override its file: those of a Deployment are read from it;
with --config, write them after --.

With -f the objects are those of files, as kubectl printed them or as they will be
applied: the Deployment of berth-scheduler with its ConfigMap, policies, nodes,
roles and their bindings, workloads. Other objects are taken as not seen. With --config
too, the objects are checked for a scheduler with that profile.

Nothing is written. What the credential may not see is reported on standard error
(notSeen in JSON), and is no finding. The permissions of a scheduler are checked with
SubjectAccessReviews, which need a permission of their own.

Exit codes: 0 nothing was found; 1 the cluster or the file could not be read; 2 the
command line is wrong; 5 something was found.`,
		Example: `  # The cluster of the current context
  kubectl berth check

  # In a pipeline, before a profile is applied
  kubectl berth check --config profile.yaml -o json

  # Manifests, before they are applied
  kubectl kustomize manifests/overlays/gpu | kubectl berth check -f - -f deployment.yaml

  # A scheduler that runs as a static pod
  kubectl berth check --config /etc/kubernetes/berth/profile.yaml --kubeconfig /etc/kubernetes/scheduler.conf`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.flags = args; o.config != "" && cmd.ArgsLenAtDash() == 0 {
				return nil
			}
			return noArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.run(withErrorsOnly(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "a KubeSchedulerConfiguration to check")
	flags.StringVarP(&o.output, "output", "o", outputTable, "what to print: table, json or yaml")
	flags.StringVar(&o.severity, "severity", severityWarning, "minimum severity to report: warning or error; the exit code depends on what is reported")
	completeFlag(cmd, "output", completeValues(outputTable, outputJSON, outputYAML))
	completeFlag(cmd, "severity", completeValues(severityWarning, severityError))
	return cmd
}

// complete checks the flags.
func (o *checkOptions) complete() error {
	if err := oneOf("-o", o.output, outputTable, outputJSON, outputYAML); err != nil {
		return err
	}
	if err := oneOf("--severity", o.severity, severityWarning, severityError); err != nil {
		return err
	}
	if o.offline() {
		return nil
	}
	return o.connect()
}

// offline reports whether the profile alone is checked.
func (o *checkOptions) offline() bool {
	return o.config != "" && !o.chosen() && len(o.files) == 0
}

// run checks, and tells what was found.
func (o *checkOptions) run(ctx context.Context, stdin io.Reader, out, status io.Writer) error {
	report, err := o.check(ctx, stdin)
	if err != nil {
		return err
	}
	if o.severity == severityError {
		report.AtLeast(check.Error)
	}
	switch {
	case o.output != outputTable:
		text, err := marshal(o.output, report)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	case len(report.Findings) > 0:
		if err := report.WriteTable(out); err != nil {
			return err
		}
	default:
		fmt.Fprintf(out, "Nothing was found. Schedulers: %s\n", orNone(report.Schedulers))
	}
	for _, line := range report.NotSeen {
		fmt.Fprintf(status, "%s: not seen: %s\n", program, line)
	}
	if len(report.Findings) > 0 {
		return errFound
	}
	return nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, "; ")
}

// check checks the profile and, unless that is all, the cluster.
func (o *checkOptions) check(ctx context.Context, stdin io.Reader) (*check.Report, error) {
	options := check.Options{Client: o.client, Now: time.Now()}
	if o.config != "" {
		content, err := os.ReadFile(o.config)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		flags, err := settings.Parse(o.flags)
		if err != nil {
			return nil, usageError{err}
		}
		profile, err := settings.Load(ctx, o.config, content, flags)
		if err != nil || o.offline() {
			return check.ProfileReport(flags.Source(o.config), profile, err), nil
		}
		options.Profile = profile
	}
	if len(o.files) > 0 {
		options.Files = check.NewFiles(cmp.Or(*o.Namespace, corev1.NamespaceDefault))
		for _, file := range o.files {
			if err := options.Files.Read(file, stdin); err != nil {
				return nil, fmt.Errorf("-f: %w", err)
			}
		}
	}
	return check.Cluster(ctx, options)
}
