// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
)

// devicesOptions are the flags of devices.
type devicesOptions struct {
	clusterInput

	by        string
	output    string
	watch     bool
	noHeaders bool
	config    string

	nodes     []string
	namespace string
	keys      *device.NodeKeys
}

// watchInterval is the least time between two lines of a watch about the same device.
const watchInterval = time.Second

func newDevicesCommand() *cobra.Command {
	o := &devicesOptions{}
	cmd := &cobra.Command{
		Use:   "devices [NODE…] [--by node|pod|namespace|model|claim]",
		Short: "Show what is free of each device, which pods use the rest, and what is wrong",
		Long: `Show the devices of the nodes: what is free of each, which pods use the rest, whether it
is cordoned, and what is wrong with it: allocated more than once, used by a pod whose
devices are unknown, or rejected because of what its node says.

It is read from nodes, pods and the objects of DRA, with list requests only, and
counted as the plugin GPUDevice counts it. What your credential cannot read is reported
on standard error. If you may list pods in only one namespace (-n, or that of the
context), the free amount is an upper bound, marked "<=".

Fragmented is what is free but unusable for the most common shapes of the cluster's pods.

Devices that DRA drivers publish are shown with the ResourceClaims that have them. "Enforced"
means that the driver keeps pods within their part; "accounted", that it is only counted, as
shares are. --by claim has a row for each device of a claim.

Exit codes: 0 shown; 1 the cluster or a file could not be read, or a node is not
there; 2 the command line is wrong.`,
		Example: `  # All devices
  kubectl berth devices

  # Who uses the devices of two nodes
  kubectl berth devices gpu-1 gpu-2 --by pod

  # Who has which device of a DRA driver, and how much of it
  kubectl berth devices --by claim

  # Allocation and fragmentation of each model
  kubectl berth devices --by model

  # From what kubectl printed
  kubectl get nodes,pods,resourceslices,resourceclaims,deviceclasses -A -o json | kubectl berth devices -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args, cmd.Flags().Changed("namespace")); err != nil {
				return err
			}
			return o.run(withErrorsOnly(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "show pods of all namespaces, the default without -n; fail if you are not allowed to list them")
	flags.StringVar(&o.by, "by", string(deviceusage.ByDevice), "what the table has a row for: device, node, pod, namespace, model or claim")
	addOutputFlag(cmd, &o.output, devicesOutputs)
	flags.BoolVarP(&o.watch, "watch", "w", false, "after the table, print each row that changes")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print no header above the table")
	flags.StringVar(&o.config, "config", "", "a KubeSchedulerConfiguration whose GPUDevice says by which labels nodes describe their devices (default: those of NVIDIA's GPU feature discovery)")
	cmd.ValidArgsFunction = o.completeNodes
	completeFlag(cmd, "by", completeValues(groupings()...))
	return cmd
}

// groupings are what --by takes.
func groupings() []string {
	var values []string
	for _, by := range deviceusage.Grouping() {
		values = append(values, string(by))
	}
	return values
}

// complete checks the flags and fills in what follows from them. named is whether -n
// was given.
func (o *devicesOptions) complete(nodes []string, named bool) error {
	if err := oneOf("--by", o.by, groupings()...); err != nil {
		return err
	}
	if err := oneOf("-o", o.output, devicesOutputs...); err != nil {
		return err
	}
	if o.watch && len(o.files) > 0 {
		return usagef("--watch: files do not change: leave out -f")
	}
	o.nodes = nodes
	if named && !o.allNamespaces {
		o.namespace = *o.Namespace
	}
	if err := o.loadKeys(); err != nil {
		return err
	}
	return o.connect()
}

// loadKeys reads by which labels nodes describe their devices.
func (o *devicesOptions) loadKeys() error {
	keys := device.DefaultNodeKeys()
	o.keys = &keys
	if o.config == "" {
		return nil
	}
	content, err := os.ReadFile(o.config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	config, err := registry.LoadConfiguration(o.config, content)
	if err != nil {
		return err
	}
	args := registry.GPUDeviceArgs(config)
	if len(args) == 0 {
		return fmt.Errorf("%s: no profile runs %s", o.config, gpudevice.Name)
	}
	o.keys = gpudevice.NodeKeys(args[0]).AllPools()
	return nil
}

// run shows the devices once and, with --watch, again when something changes.
func (o *devicesOptions) run(ctx context.Context, stdin io.Reader, out, status io.Writer) error {
	listing := cluster.Listing{Resources: deviceusage.Resources(), Required: []string{"pods"}}
	if !o.allNamespaces && len(o.files) == 0 {
		listing.Namespace = o.currentNamespace()
	}
	c, notes, err := o.read(ctx, listing, stdin)
	if err != nil {
		return err
	}
	report := deviceusage.New(deviceusage.ObjectsOf(c), o.keys)
	report.Notes = slices.Concat(notes, report.Notes)
	printNotes(status, report.Notes)
	shown := &shownDevices{options: o, status: status}
	if err := shown.show(out, report); err != nil || !o.watch {
		return err
	}
	watching := deviceusage.Watching{Seen: c, Keys: o.keys, Interval: watchInterval, Clock: clock.RealClock{}}
	err = watching.Watch(ctx, o.client, func(r *deviceusage.Report) error { return shown.show(out, r) })
	if ctx.Err() == nil {
		return err
	}
	return nil // a watch ends with a signal
}

// shownDevices is what was shown.
type shownDevices struct {
	options *devicesOptions
	status  io.Writer
	table   *deviceusage.Table
	text    string
}

// show prints the report or, if one was printed before, what is new in it.
func (s *shownDevices) show(out io.Writer, whole *deviceusage.Report) error {
	o := s.options
	report, missing := whole.Select(o.nodes, o.namespace)
	if len(missing) > 0 && s.table == nil && s.text == "" {
		return fmt.Errorf("no node with devices is named %s: see kubectl berth devices --by node", strings.Join(missing, ", "))
	}
	if o.output == outputJSON || o.output == outputYAML {
		text, err := marshal(o.output, report)
		if err != nil || text == s.text {
			return err
		}
		separator := ""
		if s.text != "" && o.output == outputYAML {
			separator = "---\n"
		}
		s.text = text
		_, err = io.WriteString(out, separator+text)
		return err
	}
	table := report.Table(deviceusage.By(o.by), o.output == outputWide)
	before := s.table
	s.table = table
	if before == nil {
		if len(table.Rows) == 0 && o.namespace == "" {
			fmt.Fprintln(s.status, "No node has devices that Berth knows of: its README says how to share GPUs.")
		}
		return table.Write(out, !o.noHeaders)
	}
	return table.Changed(before).Write(out, false)
}
