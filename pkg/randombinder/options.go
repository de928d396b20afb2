// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	componentbaseconfig "k8s.io/component-base/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Fit says which nodes may take a pod.
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
	// FitNone takes any ready node, cordoned, tainted or full as it may be: the
	// scheduler of the textbooks.
	FitNone Fit = "none"
)

// Fits returns the valid values of Fit.
func Fits() []Fit { return []Fit{FitConstraints, FitResources, FitNone} }

// Options configures the random binder. Defaults come from DefaultOptions.
type Options struct {
	// SchedulerName is the spec.schedulerName of the pods to bind: a DNS
	// subdomain. Default random-scheduler.
	SchedulerName string
	// Namespaces limits the binder to the pods of these namespaces. Empty, the
	// default, means all.
	Namespaces []string
	// Fit says which nodes may take a pod. Default FitConstraints.
	Fit Fit
	// Workers is the number of Bindings in flight at a time, at least 1.
	// Default 10.
	Workers int
	// Seed of the random choice. 0, the default, draws one from crypto/rand; it
	// is logged either way.
	Seed uint64
	// InitialBackoff and MaxBackoff bound the wait before a pod that found no
	// node, or whose Binding failed, is tried again without anything having
	// changed. It doubles with each failure. Defaults 1s and 1m.
	InitialBackoff, MaxBackoff time.Duration
	// SecureServing says where /metrics, /healthz and /readyz are served over
	// HTTPS, and with which certificate; a BindPort of 0 is nowhere. Default
	// 127.0.0.1:10261 with a certificate made up at start.
	SecureServing *apiserveroptions.SecureServingOptions
	// Kubeconfig is the file with the credential that asks the API server who reads
	// /metrics and whether they may. Empty, the default, means the ServiceAccount of
	// the pod; outside of a pod nobody may then.
	Kubeconfig string
	// LeaderElection lets several replicas run, one of which binds. Default on,
	// with the lease random-scheduler in berth-system.
	LeaderElection componentbaseconfig.LeaderElectionConfiguration
}

// DefaultOptions returns what the random-scheduler command does without flags.
func DefaultOptions() *Options {
	o := &Options{
		SchedulerName:  names.RandomScheduler,
		Fit:            FitConstraints,
		Workers:        10,
		InitialBackoff: time.Second,
		MaxBackoff:     time.Minute,
		SecureServing:  apiserveroptions.NewSecureServingOptions(),
	}
	o.SecureServing.BindAddress, o.SecureServing.BindPort = net.IPv4(127, 0, 0, 1), 10261
	// Without a folder, a certificate that is made up stays in memory.
	o.SecureServing.ServerCert.CertDirectory, o.SecureServing.ServerCert.PairName = "", names.RandomScheduler
	o.LeaderElection = componentbaseconfig.LeaderElectionConfiguration{
		LeaderElect:       true,
		ResourceLock:      "leases",
		ResourceName:      names.RandomScheduler,
		ResourceNamespace: names.Namespace,
	}
	o.LeaderElection.LeaseDuration.Duration = 15 * time.Second
	o.LeaderElection.RenewDeadline.Duration = 10 * time.Second
	o.LeaderElection.RetryPeriod.Duration = 2 * time.Second
	return o
}

// Validate returns every mistake in o at once. Each path is the name of the
// flag of random-scheduler that sets the field.
func (o *Options) Validate() error {
	var errs field.ErrorList
	flag := func(name string) *field.Path { return field.NewPath("--" + name) }

	if o.SchedulerName == "" {
		errs = append(errs, field.Required(flag("scheduler-name"), "the spec.schedulerName of the pods to bind"))
	} else {
		for _, msg := range validation.IsDNS1123Subdomain(o.SchedulerName) {
			errs = append(errs, field.Invalid(flag("scheduler-name"), o.SchedulerName, msg))
		}
	}
	seen := sets.New[string]()
	for i, ns := range o.Namespaces {
		path := flag("namespaces").Index(i)
		for _, msg := range apivalidation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(path, ns, msg))
		}
		if seen.Has(ns) {
			errs = append(errs, field.Duplicate(path, ns))
		}
		seen.Insert(ns)
	}
	if !slices.Contains(Fits(), o.Fit) {
		errs = append(errs, field.NotSupported(flag("fit"), o.Fit, Fits()))
	}
	if o.Workers < 1 {
		errs = append(errs, field.Invalid(flag("workers"), o.Workers, "must be at least 1"))
	}
	if o.InitialBackoff <= 0 {
		errs = append(errs, field.Invalid(flag("pod-initial-backoff"), o.InitialBackoff.String(), "must be more than 0"))
	}
	if o.MaxBackoff < o.InitialBackoff {
		errs = append(errs, field.Invalid(flag("pod-max-backoff"), o.MaxBackoff.String(), "must not be less than --pod-initial-backoff"))
	}
	errs = append(errs, o.validateLeaderElection(flag)...)

	serving := o.SecureServing.Validate()
	if len(errs)+len(serving) == 0 {
		return nil
	}
	messages := make([]string, 0, len(errs)+len(serving))
	for _, err := range errs {
		messages = append(messages, err.Error())
	}
	for _, err := range serving {
		messages = append(messages, err.Error())
	}
	return fmt.Errorf("invalid flags: %s", strings.Join(messages, "; "))
}

// validateLeaderElection makes of client-go's rules, which panic or name no
// flag, errors that do.
func (o *Options) validateLeaderElection(flag func(string) *field.Path) field.ErrorList {
	var errs field.ErrorList
	le := &o.LeaderElection
	if !le.LeaderElect {
		return nil
	}
	if le.ResourceLock != "leases" {
		errs = append(errs, field.NotSupported(flag("leader-elect-resource-lock"), le.ResourceLock, []string{"leases"}))
	}
	for _, msg := range validation.IsDNS1123Subdomain(le.ResourceName) {
		errs = append(errs, field.Invalid(flag("leader-elect-resource-name"), le.ResourceName, msg))
	}
	for _, msg := range apivalidation.ValidateNamespaceName(le.ResourceNamespace, false) {
		errs = append(errs, field.Invalid(flag("leader-elect-resource-namespace"), le.ResourceNamespace, msg))
	}
	lease, renew, retry := le.LeaseDuration.Duration, le.RenewDeadline.Duration, le.RetryPeriod.Duration
	if retry <= 0 {
		errs = append(errs, field.Invalid(flag("leader-elect-retry-period"), retry.String(), "must be more than 0"))
	}
	// client-go waits up to 1.2 retry periods between two attempts to renew.
	if renew <= retry*6/5 {
		errs = append(errs, field.Invalid(flag("leader-elect-renew-deadline"), renew.String(), "must be more than 1.2 times --leader-elect-retry-period"))
	}
	if lease <= renew {
		errs = append(errs, field.Invalid(flag("leader-elect-lease-duration"), lease.String(), "must be more than --leader-elect-renew-deadline"))
	}
	if lease < time.Second {
		// A Lease counts in whole seconds.
		errs = append(errs, field.Invalid(flag("leader-elect-lease-duration"), lease.String(), "must be at least 1s"))
	}
	return errs
}
