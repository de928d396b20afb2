// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	source.Options
	clusterInput

	output   string
	requests requestCounter
}

// requestCounter counts what an API server is asked.
type requestCounter struct {
	atomic.Int64
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *requestCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	c.Add(1)
	return c.RoundTripper.RoundTrip(request)
}

// wrap counts the requests of the clients of a configuration.
func (c *requestCounter) wrap(config *rest.Config) *rest.Config {
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		c.RoundTripper = inner
		return c
	})
	return config
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain (pod/NAME | -f MANIFEST…)",
		Short: "Explain why a pod is Pending and what would fix it",
		Long: `Explain why a pod is Pending: what keeps it from the closest node, and the smallest
changes that would give it a node. Each change is tried on the objects of the cluster,
with the code of the scheduler's own profile, before it is printed. For a scheduled pod,
shows whether it would get the same node now.

The table has at most 12 lines. With -o wide it lists every node by cause, every change,
who handles the pod's schedulerName, and the scores; -o json and yaml have everything,
for programs.

With -f, the pod, Deployment, StatefulSet, ReplicaSet, Job or gang does not exist yet.
The profile is that of the running scheduler, as found in its ConfigMap, or that of
--config. With --snapshot, the cluster is read from files, as printed by "kubectl get
nodes,pods,namespaces,services,… -A -o yaml" (or json, which is read faster).

The command writes nothing to the cluster; it sends only get and list requests. It
reports what you are not allowed to read, and explains as much as it can without it.

Exit codes: 0 the pod has a node, or would get one; 1 the pod could not be explained;
2 the command line is wrong; 3 the pod has no node, and the output says why.`,
		Example: `  kubectl berth explain pod/train-7 -n team-a
  kubectl berth explain -f deployment.yaml
  kubectl get nodes,pods,namespaces -A -o json > cluster.json
  kubectl berth explain pod/train-7 --snapshot cluster.json --config config/berth-scheduler/gpu.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			o.Stdin, o.Now = cmd.InOrStdin(), time.Now()
			if err := placeGangs(); err != nil {
				return err
			}
			return o.run(withErrorsOnly(cmd.Context()), cmd.OutOrStdout())
		},
	}
	o.addConfigFlags(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.Manifests, "filename", "f", nil, "file or folder with objects that do not exist yet, YAML or JSON; - is standard input; may be repeated")
	flags.StringArrayVar(&o.Snapshots, "snapshot", nil, "read the cluster from this file or folder, as kubectl get prints it with -o yaml or json, instead of an API server; may be repeated")
	flags.StringVar(&o.Config, "config", "", "KubeSchedulerConfiguration file to use instead of the running scheduler's profile")
	flags.IntVar(&o.Parallelism, "parallel", runtime.GOMAXPROCS(0), "number of goroutines that filter and score; the result does not depend on it")
	addOutputFlag(cmd, &o.output, explainOutputs)
	cmd.ValidArgsFunction = o.completePods
	return cmd
}

// complete checks the command line and connects to the cluster, if one is read.
func (o *explainOptions) complete(args []string) error {
	if err := oneOf("-o", o.output, explainOutputs...); err != nil {
		return err
	}
	if o.Parallelism < 1 {
		return usagef("--parallel: %d must be at least 1", o.Parallelism)
	}
	var err error
	if o.Pod, err = podName(args); err != nil {
		return err
	}
	switch {
	case o.Pod == "" && len(o.Manifests) == 0:
		return usagef("name a pod as pod/NAME, or a manifest with -f")
	case o.Pod != "" && len(o.Manifests) > 0:
		return usagef("-f: cannot be combined with pod/%s: manifests are explained as pods that do not exist yet", o.Pod)
	case len(o.Snapshots) > 0 && *o.KubeConfig+*o.Context != "":
		return usagef("--snapshot: cannot be combined with --kubeconfig or --context: it replaces the cluster")
	}
	if len(o.Snapshots) > 0 {
		o.Namespace = cmp.Or(*o.ConfigFlags.Namespace, corev1.NamespaceDefault)
		return nil
	}
	o.WithWrapConfigFn(o.requests.wrap)
	if err := o.connect(); err != nil {
		return err
	}
	o.Client, o.Namespace, o.Host = o.client, o.currentNamespace(), o.host
	return nil
}

// placeGangs has the profiles that are read from now on place PodGroups, as the schedulers
// of clusters with PodGroups do: without the feature gates no API server keeps them.
func placeGangs() error { return utilfeature.DefaultMutableFeatureGate.SetFromMap(engine.GangGates()) }

// podKinds are the names of the kind that are accepted.
var podKinds = []string{"pod", "pods", "po"}

// podName reads pod/NAME, pods/NAME, po/NAME, or pod NAME.
func podName(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	kind, name, ok := strings.Cut(strings.Join(args, "/"), "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", usagef("unexpected argument %q: name one pod as pod/NAME", strings.Join(args, " "))
	}
	if !slices.Contains(podKinds, kind) {
		return "", usagef("unexpected argument %q: explain takes only pods, as pod/NAME, or manifests with -f", strings.Join(args, " "))
	}
	return name, nil
}

// run explains, and prints.
func (o *explainOptions) run(ctx context.Context, out io.Writer) error {
	inputs, err := source.Read(ctx, &o.Options)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	var explanations []*explain.Explanation
	placed := true
	for _, in := range inputs {
		x, err := explain.Explain(ctx, in)
		if err != nil {
			return interruptedOr(ctx, err)
		}
		if o.Client != nil {
			x.Notes = append(x.Notes, fmt.Sprintf("the cluster was read with %s (get and list only, 500 objects a page)", output.Count(int(o.requests.Load()), "request")))
		}
		explanations = append(explanations, x)
		placed = placed && x.State.Placed()
	}
	if err := o.print(out, explanations); err != nil {
		return err
	}
	if !placed {
		return errNotPlaced
	}
	return nil
}

// interruptedOr returns err, or what a user who has interrupted should read.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// print writes the explanations: one as it is, several as a list.
func (o *explainOptions) print(out io.Writer, explanations []*explain.Explanation) error {
	var value any = explanations
	if len(explanations) == 1 {
		value = explanations[0]
	}
	if o.output == outputJSON || o.output == outputYAML {
		text, err := marshal(o.output, value)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	}
	for i, x := range explanations {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := x.WriteTable(out, o.output == outputWide); err != nil {
			return err
		}
	}
	return nil
}

// completePods completes pod/NAME.
func (o *explainOptions) completePods(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, ok := strings.Cut(toComplete, "/")
	if !ok || !slices.Contains(podKinds, kind) {
		return beginning([]string{"pod/"}, toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return o.clusterInput.complete(cmd, args, toComplete, func(ctx context.Context, client kubernetes.Interface) ([]string, error) {
		names, err := namesIn(client.CoreV1().Pods(o.currentNamespace()).List(ctx, metav1.ListOptions{}))
		for i := range names {
			names[i] = kind + "/" + names[i]
		}
		return names, err
	})
}
