// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
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
	// auditLogs are checked in place of a cluster.
	auditLogs []string
	exempt    []string
}

// What --severity takes.
const (
	severityWarning = "warning"
	severityError   = "error"
)

func newCheckCommand() *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check [--config PROFILE.yaml] [-f FILE…] [--audit-log FILE…] [-- FLAGS OF THE SCHEDULER]",
		Short: "Find what is wrong with a profile, with a cluster that Berth serves, or was wrong at any time",
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

With --audit-log, the writes of the past are checked: whether at any moment a device was
allocated twice, a pod was bound without a record of its devices, a record changed, or a
pod entered the node of a tenant that is not its own; from when to when, by which
pods, and who wrote it. The files are audit logs of API servers (audit.k8s.io/v1, a JSON
object a line, also compressed with gzip; all rotated files of all API servers), or what
kubectl get --raw '/api/v1/pods?watch=true' has printed. With -f, give the nodes,
namespaces and pods of the time before the logs began. The result is Clean, Violation, or
Insufficient: no violation, but the logs do not show everything; what they lack is
reported on standard error (gaps in JSON).

Nothing is written. What the credential may not see is reported on standard error
(notSeen in JSON), and is no finding. The permissions of a scheduler are checked with
SubjectAccessReviews, which need a permission of their own.

Exit codes: 0 nothing was found; 1 the cluster or the file could not be read, or an
audit log is insufficient; 2 the command line is wrong; 5 something was found.`,
		Example: `  # The cluster of the current context
  kubectl berth check

  # In a pipeline, before a profile is applied
  kubectl berth check --config profile.yaml -o json

  # Manifests, before they are applied
  kubectl kustomize manifests/overlays/gpu | kubectl berth check -f - -f deployment.yaml

  # Whether a device was ever allocated twice
  kubectl berth check --audit-log /var/log/kubernetes/audit/ -f before.json

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
	addOutputFlag(cmd, &o.output, checkOutputs)
	flags.StringVar(&o.severity, "severity", severityWarning, "minimum severity to report: warning or error; the exit code depends on what is reported")
	flags.StringArrayVar(&o.auditLogs, "audit-log", nil, "check the writes in this audit log of an API server, file of watch events, or folder of such files, instead of a cluster; - is standard input; may be repeated")
	flags.StringSliceVar(&o.exempt, "exempt-namespaces", []string{"kube-system", "berth-system"}, "with --audit-log: namespaces whose pods may run on all tenants' nodes, as in the profile")
	completeFlag(cmd, "severity", completeValues(severityWarning, severityError))
	return cmd
}

// complete checks the flags.
func (o *checkOptions) complete() error {
	if err := oneOf("-o", o.output, checkOutputs...); err != nil {
		return err
	}
	if err := oneOf("--severity", o.severity, severityWarning, severityError); err != nil {
		return err
	}
	if len(o.auditLogs) > 0 {
		return o.completeAuditLogs()
	}
	if o.offline() {
		return nil
	}
	return o.connect()
}

// completeAuditLogs checks the flags beside --audit-log.
func (o *checkOptions) completeAuditLogs() error {
	if i := duplicate(o.auditLogs); i >= 0 {
		return usagef("--audit-log: %s is given more than once", o.auditLogs[i])
	}
	if slices.Contains(o.auditLogs, "-") && slices.Contains(o.files, "-") {
		return usagef("--audit-log and -f: only one of them can read standard input")
	}
	if o.config != "" || o.chosen() {
		return usagef("--audit-log: no profile and no cluster is checked with it: leave out --config, --kubeconfig, --context, --cluster and --server")
	}
	return nil
}

// offline reports whether the profile alone is checked.
func (o *checkOptions) offline() bool {
	return o.config != "" && !o.chosen() && len(o.files) == 0
}

// run checks, and tells what was found.
func (o *checkOptions) run(ctx context.Context, stdin io.Reader, out, status io.Writer) error {
	if len(o.auditLogs) > 0 {
		return o.runAuditLogs(ctx, stdin, out, status)
	}
	report, err := o.check(ctx, stdin)
	if err != nil {
		return err
	}
	if o.severity == severityError {
		report.AtLeast(check.Error)
	}
	switch {
	case o.output != outputTable:
		if err := o.print(out, report); err != nil {
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

// print writes a report as JSON or YAML.
func (o *checkOptions) print(out io.Writer, report any) error {
	text, err := marshal(o.output, report)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// runAuditLogs checks logs, and reports what was found.
func (o *checkOptions) runAuditLogs(ctx context.Context, stdin io.Reader, out, status io.Writer) error {
	options := &check.LogOptions{Files: o.auditLogs, Stdin: stdin, Exempt: o.exempt}
	if len(o.files) > 0 {
		before, notes, err := o.read(ctx, cluster.Listing{}, stdin)
		if err != nil {
			return err
		}
		printNotes(status, notes)
		options.Before = before
	}
	report, err := check.Logs(options)
	if err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	if o.output == outputTable {
		err = report.WriteTable(out)
	} else {
		err = o.print(out, report)
	}
	for _, gap := range report.Gaps {
		fmt.Fprintf(status, "%s: not in the log: %s\n", program, gap)
	}
	switch {
	case err != nil:
		return err
	case report.Verdict == check.Violated:
		return errFound
	case report.Verdict == check.Insufficient:
		return errors.New("the log is not sufficient: see above")
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
