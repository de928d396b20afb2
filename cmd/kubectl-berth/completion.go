// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
)

// completionTimeout is how long somebody who pressed a key waits for an API server.
const completionTimeout = 3 * time.Second

// completionProgram is the name by which kubectl asks a plugin to complete its command
// line: a link of that name to the binary, in PATH, is all that it takes.
const completionProgram = "kubectl_complete-berth"

// arguments returns the command line of this program, argv[0] included, without its name.
func arguments(argv []string) []string {
	if filepath.Base(argv[0]) == completionProgram {
		return append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	return argv[1:]
}

// completer returns what may stand at a place of the command line.
type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completeFlag sets what completes the values of a flag.
func completeFlag(cmd *cobra.Command, flag string, complete completer) {
	// It fails for a flag that is not there or that is set already, which is a mistake here.
	utilruntime.Must(cmd.RegisterFlagCompletionFunc(flag, complete))
}

// completeValues completes one of some values.
func completeValues(values ...string) completer {
	return func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return beginning(values, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNodes completes the names of nodes that do not stand on the command line yet.
func (in *clusterInput) completeNodes(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return in.complete(cmd, args, toComplete, func(ctx context.Context, client kubernetes.Interface) ([]string, error) {
		return namesIn(client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
	})
}

// completeNamespaces completes the names of namespaces.
func (in *clusterInput) completeNamespaces(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return in.complete(cmd, nil, toComplete, func(ctx context.Context, client kubernetes.Interface) ([]string, error) {
		return namesIn(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}))
	})
}

// namesIn returns the names of the objects in a list, unless it could not be had.
func namesIn(list runtime.Object, err error) ([]string, error) {
	var names []string
	if err == nil {
		err = meta.EachListItem(list, func(obj runtime.Object) error {
			accessor, err := meta.Accessor(obj)
			if err == nil {
				names = append(names, accessor.GetName())
			}
			return err
		})
	}
	return names, err
}

// completeContexts completes the contexts of the kubeconfig.
func (in *clusterInput) completeContexts(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	raw, err := in.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for name := range raw.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return beginning(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// complete completes names that an API server has. Where it does not answer, nothing is
// completed.
func (in *clusterInput) complete(cmd *cobra.Command, not []string, toComplete string, list func(context.Context, kubernetes.Interface) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if err := in.connect(); err != nil || in.client == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	names, err := list(ctx, in.client)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(not, name) })
	slices.Sort(names)
	return beginning(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// beginning returns the words that begin as what stands there already.
func beginning(words []string, toComplete string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.HasPrefix(word, toComplete) })
}
