// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// clusterInput are the flags that say which cluster a command reads: one that kubectl
// knows, or files of what kubectl printed.
type clusterInput struct {
	*genericclioptions.ConfigFlags

	files         []string
	allNamespaces bool

	// client is nil where files are read, and host is the server's address. connect sets
	// them.
	client kubernetes.Interface
	host   string
}

// What kubectl allows itself; client-go's defaults are for programs that never end.
const (
	clientQPS   = 50
	clientBurst = 300
)

func (in *clusterInput) addFlags(cmd *cobra.Command) {
	in.addConfigFlags(cmd)
	cmd.Flags().StringArrayVarP(&in.files, "filename", "f", nil, "read the cluster from this file or folder, as kubectl get prints it with -o yaml or json, instead of an API server; - is standard input; may be repeated")
}

// addConfigFlags adds the flags that choose a cluster that kubectl knows.
func (in *clusterInput) addConfigFlags(cmd *cobra.Command) {
	in.ConfigFlags = genericclioptions.NewConfigFlags(true)
	in.AddFlags(cmd.Flags())
	completeFlag(cmd, "namespace", in.completeNamespaces)
	completeFlag(cmd, "context", in.completeContexts)
}

// connect makes the client of the cluster, unless files are read.
func (in *clusterInput) connect() error {
	if i := duplicate(in.files); i >= 0 {
		return usagef("-f: %s is given more than once", in.files[i])
	}
	if len(in.files) > 0 {
		return nil
	}
	config, err := loadConfig(in.ConfigFlags)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	in.host = config.Host
	if in.client, err = kubernetes.NewForConfig(config); err != nil {
		return configError(*in.KubeConfig, *in.Context, err)
	}
	return nil
}

// chosen reports whether flags name the cluster.
func (in *clusterInput) chosen() bool {
	return *in.KubeConfig+*in.Context+*in.ClusterName+*in.APIServer != ""
}

// known reports whether there is a cluster that kubectl would use by default: one in its
// files, or the one in which this runs.
func (in *clusterInput) known() bool {
	raw, err := in.ToRawKubeConfigLoader().RawConfig()
	if in.chosen() || err != nil || len(raw.Clusters) > 0 {
		return true // reading it reports what is wrong with it
	}
	_, err = rest.InClusterConfig()
	return err == nil
}

// currentNamespace is that of -n, or else of the context.
func (in *clusterInput) currentNamespace() string {
	namespace, _, err := in.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "" // connect has reported the error
	}
	return namespace
}

// read reads the cluster, or the files, and returns notes on what was left out.
func (in *clusterInput) read(ctx context.Context, listing cluster.Listing, stdin io.Reader) (*cluster.Cluster, []string, error) {
	var c *cluster.Cluster
	var notes []cluster.Note
	if in.client != nil {
		var err error
		if c, notes, err = listing.List(ctx, in.client); err != nil {
			return nil, nil, err
		}
	} else {
		reader := cluster.NewReader()
		reader.Namespace = cmp.Or(*in.Namespace, "default")
		for _, file := range in.files {
			if err := reader.ReadFile(file, stdin); err != nil {
				return nil, nil, fmt.Errorf("-f: %w", err)
			}
		}
		c, notes = reader.Cluster()
	}
	lines := make([]string, 0, len(notes))
	for _, note := range notes {
		lines = append(lines, note.String())
	}
	return c, lines, nil
}

// printNotes writes notes where they do not mix with the result.
func printNotes(status io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintf(status, "%s: note: %s\n", program, note)
	}
}
