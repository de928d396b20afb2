// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

// maxFakeNodes is the largest number that --nodes takes: four times the size of the
// largest cluster that Kubernetes supports. A slip of the finger must not use up
// the machine's memory.
const maxFakeNodes = 20_000

func newUpCommand() *cobra.Command {
	var options localcluster.Options
	var nodes, featureGates, runtimeConfig string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the control plane and run it until SIGINT or SIGTERM",
		Long: `Start etcd, kube-apiserver, kube-controller-manager and kwok on 127.0.0.1, and
print one line on standard output as soon as they are usable:

  berth-local ready: server URL, kubeconfig FILE, data DIR, nodes N

It counts every node of the cluster, including those of earlier runs on --data-dir.
SIGINT and SIGTERM stop everything in order, also before that line; the exit code
is then 0. A second signal changes nothing. If a component dies, the others are
stopped, the last lines of its log are printed, and the exit code is 1. An invalid
flag or file of nodes gives exit code 2; a port, folder or file that is in use
gives 1.

With --data-dir the data, the certificate authority and the service account
signing key are kept, so objects and tokens outlive a restart; the kubeconfig is
left and rewritten at the next start. Without it everything lives in a temporary
folder, which is removed at the end together with the kubeconfig. If the process was
killed, the next start removes what it left behind.

kwok simulates every node, including those that you create with kubectl: it makes
them ready, and the pods bound to them Running. A node or pod annotated
kwok.x-k8s.io/status=custom keeps the status that you give it. No container runs,
so "kubectl logs", "exec", "attach" and "port-forward" have nothing to reach: they
answer "no preferred addresses found".`,
		Example: `  berth-local up --kubeconfig /tmp/berth.kubeconfig --nodes 10
  berth-local up --kubeconfig dev.kubeconfig --data-dir dev --nodes nodes.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Listening for good: a second signal, such as the one that timeout sends,
			// must not end the process before everything is stopped and removed.
			signals := make(chan os.Signal, 1)
			signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			go func() {
				<-signals
				stop()
			}()
			if options.Kubeconfig == "" {
				return usageError{errors.New("--kubeconfig is required: name the file to write the administrator's kubeconfig to")}
			}
			var err error
			if options.Nodes, err = parseNodes(nodes); err != nil {
				return usageError{err}
			}
			if featureGates != "" {
				gates := "--feature-gates=" + featureGates
				options.APIServerArgs = append(options.APIServerArgs, gates)
				options.ControllerManagerArgs = append(options.ControllerManagerArgs, gates)
			}
			if runtimeConfig != "" {
				options.APIServerArgs = append(options.APIServerArgs, "--runtime-config="+runtimeConfig)
			}
			// For the package, 0 is the default; who types it means something else.
			if options.StartTimeout <= 0 {
				return usageError{fmt.Errorf("--start-timeout %v: must be more than 0, such as 3m", options.StartTimeout)}
			}
			if err := options.Validate(); err != nil {
				return usageError{err}
			}
			return up(ctx, cmd.OutOrStdout(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "file to write the administrator's kubeconfig to (required)")
	flags.StringVar(&options.DataDir, "data-dir", "", "folder that keeps data, certificates and logs (default: a temporary one)")
	flags.StringVar(&nodes, "nodes", "0", "number of nodes to create, or a YAML or JSON file of Nodes; existing ones are left alone")
	flags.IntVar(&options.Port, "port", 0, "port of the API server on 127.0.0.1 (default: the port of the last run if free, else any free one)")
	flags.StringVar(&options.AuditLog, "audit-log", "", "file to append the API server's audit log to (default: none)")
	flags.StringVar(&featureGates, "feature-gates", "", "feature gates of kube-apiserver and kube-controller-manager, such as GenericWorkload=true (default: Kubernetes' own)")
	flags.StringVar(&runtimeConfig, "runtime-config", "", "additional API versions that kube-apiserver serves, such as api/beta=true (default: none)")
	flags.StringArrayVar(&options.APIServerArgs, "apiserver-arg", nil, "additional flag for kube-apiserver, such as --runtime-config=api/alpha=true (repeatable)")
	flags.StringArrayVar(&options.ControllerManagerArgs, "controller-manager-arg", nil, "additional flag for kube-controller-manager (repeatable)")
	flags.DurationVar(&options.StartTimeout, "start-timeout", localcluster.DefaultStartTimeout, "how long to wait until everything is usable")
	return cmd
}

// parseNodes reads the value of --nodes: a number, or else the name of a file.
func parseNodes(value string) ([]corev1.Node, error) {
	if value == "" {
		return nil, errors.New("--nodes: must be a number or a file")
	}
	count, err := strconv.Atoi(value)
	switch {
	case err == nil && count >= 0 && count <= maxFakeNodes:
		return localcluster.FakeNodes(count), nil
	case err == nil || meantAsNumber(value):
		return nil, fmt.Errorf("--nodes %s: must be a whole number from 0 to %d, or a file (./%[1]s if a file has that name)", value, maxFakeNodes)
	default:
		return localcluster.ReadNodesFile(value)
	}
}

// meantAsNumber tells 1.5, 1e3 and 10,000 from the name of a file.
func meantAsNumber(value string) bool {
	if !strings.ContainsAny(value, "0123456789") {
		return false // nan and inf are names
	}
	_, err := strconv.ParseFloat(strings.NewReplacer(",", "", "_", "", " ", "").Replace(value), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// up runs a control plane until ctx ends or a component dies.
func up(ctx context.Context, out io.Writer, options localcluster.Options) error {
	cluster, err := localcluster.Start(ctx, options)
	if errors.Is(err, localcluster.ErrStopped) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, localcluster.ErrStopped)
		return nil
	}
	if err != nil {
		return err
	}
	if err := announce(ctx, out, cluster, options.Kubeconfig); err != nil && ctx.Err() == nil {
		return errors.Join(err, cluster.Stop())
	}
	var failure error
	select {
	case <-ctx.Done():
		fmt.Fprintf(os.Stderr, "%s: stopping\n", program)
	case failure = <-cluster.Failed():
	}
	return errors.Join(failure, cluster.Stop())
}

// announce prints the ready line.
func announce(ctx context.Context, out io.Writer, cluster *localcluster.Cluster, kubeconfig string) error {
	// Not those asked for: a kept folder has the nodes of earlier runs.
	nodes, err := cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("counting the nodes: %w", err)
	}
	if absolute, err := filepath.Abs(kubeconfig); err == nil {
		kubeconfig = absolute
	}
	_, err = fmt.Fprintf(out, "%s ready: server %s, kubeconfig %s, data %s, nodes %d\n",
		program, cluster.Server(), kubeconfig, cluster.DataDir(), len(nodes.Items))
	return err
}
