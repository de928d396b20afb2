// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/pflag"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	componentbaseconfig "k8s.io/component-base/config"
	componentbaseoptions "k8s.io/component-base/config/options"
	componentbasevalidation "k8s.io/component-base/config/validation"

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
	// FitNone takes any ready node, cordoned, tainted or full as it may be.
	FitNone Fit = "none"
)

// fits are the valid values of Fit.
var fits = []Fit{FitConstraints, FitResources, FitNone}

// Options configures the random binder. NewOptions has the defaults, and the flags
// say what each field means.
type Options struct {
	SchedulerName              string
	Namespaces                 []string
	Fit                        Fit
	Workers                    int
	Seed                       uint64
	InitialBackoff, MaxBackoff time.Duration
	// SecureServing says where /metrics, /healthz and /readyz are served; a
	// BindPort of 0 is nowhere.
	SecureServing *apiserveroptions.SecureServingOptions
	// LeaderElection lets several replicas run, one of which binds.
	LeaderElection componentbaseconfig.LeaderElectionConfiguration
	// Kubeconfig has the credential that asks the API server who may read /metrics.
	// Without it, it is the ServiceAccount of the pod; outside of a pod nobody may.
	Kubeconfig string
}

// NewOptions returns what the random-scheduler command does without flags, and adds
// the flags that change it.
func NewOptions(flags *pflag.FlagSet) *Options {
	o := &Options{SecureServing: apiserveroptions.NewSecureServingOptions()}
	flags.StringVar(&o.SchedulerName, "scheduler-name", names.RandomScheduler, "bind the pods with this spec.schedulerName")
	flags.StringSliceVar(&o.Namespaces, "namespaces", nil, "bind only the pods of these namespaces (default all)")
	flags.StringVar((*string)(&o.Fit), "fit", string(FitConstraints), `which nodes are feasible for a pod: "constraints", ready, not cordoned, taints tolerated, nodeSelector and required node affinity matched; "resources", also with room for its requests; "none", any that is ready`)
	flags.IntVar(&o.Workers, "workers", 10, "number of Bindings in flight at a time")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the random choice; 0 draws one and logs it")
	flags.DurationVar(&o.InitialBackoff, "pod-initial-backoff", time.Second, "wait before a pod that got no node is tried again without a change in the cluster; doubles each time")
	flags.DurationVar(&o.MaxBackoff, "pod-max-backoff", time.Minute, "longest such wait")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: the ServiceAccount of the pod that this runs in)")
	flags.IPVar(&o.SecureServing.BindAddress, "bind-address", net.IPv4(127, 0, 0, 1), "address to serve at over HTTPS: /healthz and /readyz to anybody, /metrics to those whom the API server lets")
	flags.IntVar(&o.SecureServing.BindPort, "secure-port", 10261, "port to serve at; 0 to serve nothing")
	certificate := &o.SecureServing.ServerCert
	flags.StringVar(&certificate.CertKey.CertFile, "tls-cert-file", "", "file with the certificate to serve with (default: one made at start)")
	flags.StringVar(&certificate.CertKey.KeyFile, "tls-private-key-file", "", "file with its private key")
	// Without a folder, a certificate that is made at start stays in memory.
	certificate.CertDirectory, certificate.PairName = "", names.RandomScheduler
	o.LeaderElection = componentbaseconfig.LeaderElectionConfiguration{
		LeaderElect:       true,
		LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
		RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
		RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
		ResourceLock:      "leases",
		ResourceName:      names.RandomScheduler,
		ResourceNamespace: names.Namespace,
	}
	componentbaseoptions.BindLeaderElectionFlags(&o.LeaderElection, flags)
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
	if !slices.Contains(fits, o.Fit) {
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
	errs = append(errs, componentbasevalidation.ValidateLeaderElectionConfiguration(&o.LeaderElection, field.NewPath("leaderElection"))...)
	if err := utilerrors.NewAggregate(append(o.SecureServing.Validate(), errs.ToAggregate())); err != nil {
		return fmt.Errorf("invalid flags: %w", err)
	}
	return nil
}
