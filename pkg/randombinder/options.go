// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Fit says which nodes are feasible for a pod.
type Fit string

const (
	// FitConstraints takes nodes that are ready, not cordoned, whose NoSchedule
	// and NoExecute taints the pod tolerates, and that match its nodeSelector
	// and required node affinity. The default.
	FitConstraints Fit = "constraints"
	// FitResources is FitConstraints, and the pod's requests must fit into what
	// the node's pods leave of its allocatable resources, "pods" included. It
	// watches the pods of the whole cluster.
	FitResources Fit = "resources"
	// FitNone takes any ready node, also one that is cordoned, tainted or full.
	FitNone Fit = "none"
)

// Options configures the random binder. NewOptions has the defaults, and the flags
// say what each field means.
type Options struct {
	SchedulerName              string
	Namespaces                 []string
	Fit                        Fit
	Workers                    int
	Seed                       uint64
	InitialBackoff, MaxBackoff time.Duration
	// BindAddress is where /metrics, /healthz and /readyz are served; empty is nowhere.
	BindAddress string
	// Kubeconfig has the credential; without it, it is the ServiceAccount of the pod.
	Kubeconfig string
}

// NewOptions returns what the random-scheduler command does without flags, and adds
// the flags that change it.
func NewOptions(flags *pflag.FlagSet) *Options {
	o := &Options{}
	flags.StringVar(&o.SchedulerName, "scheduler-name", names.RandomScheduler, "bind the pods with this spec.schedulerName")
	flags.StringSliceVar(&o.Namespaces, "namespaces", nil, "bind only the pods of these namespaces (default all)")
	flags.StringVar((*string)(&o.Fit), "fit", string(FitConstraints), `which nodes are feasible for a pod: "constraints", ready, not cordoned, taints tolerated, nodeSelector and required node affinity matched; "resources", also with room for its requests; "none", any that is ready`)
	flags.IntVar(&o.Workers, "workers", 10, "number of Bindings in flight at a time")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the random choice; 0 draws one and logs it")
	flags.DurationVar(&o.InitialBackoff, "pod-initial-backoff", time.Second, "wait before a pod that got no node is tried again without a change in the cluster; doubles each time")
	flags.DurationVar(&o.MaxBackoff, "pod-max-backoff", time.Minute, "longest such wait")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: the ServiceAccount of the pod that this runs in)")
	flags.StringVar(&o.BindAddress, "bind-address", "127.0.0.1:10261", "address and port to serve /healthz, /readyz and /metrics at, over HTTP; empty to serve nothing")
	return o
}

// Validate returns every mistake in o at once, by the name of the flag.
func (o *Options) Validate() error {
	var errs field.ErrorList
	check := func(flag string, value any, mistakes ...string) {
		for _, mistake := range mistakes {
			errs = append(errs, field.Invalid(field.NewPath("--"+flag), value, mistake))
		}
	}
	check("scheduler-name", o.SchedulerName, validation.IsDNS1123Subdomain(o.SchedulerName)...)
	for _, namespace := range o.Namespaces {
		check("namespaces", namespace, apivalidation.ValidateNamespaceName(namespace, false)...)
	}
	if fits := []Fit{FitConstraints, FitResources, FitNone}; !slices.Contains(fits, o.Fit) {
		errs = append(errs, field.NotSupported(field.NewPath("--fit"), o.Fit, fits))
	}
	if o.Workers < 1 {
		check("workers", o.Workers, "must be at least 1")
	}
	if o.InitialBackoff <= 0 {
		check("pod-initial-backoff", o.InitialBackoff.String(), "must be greater than 0")
	}
	if o.MaxBackoff < o.InitialBackoff {
		check("pod-max-backoff", o.MaxBackoff.String(), "must not be less than --pod-initial-backoff")
	}
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("invalid flags: %w", err)
	}
	return nil
}
