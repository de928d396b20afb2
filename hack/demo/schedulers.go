// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/controlplane"
)

// The schedulers' binaries, below bin/.
const (
	stockBinary  = "kube-scheduler"
	berthBinary  = "berth-scheduler"
	randomBinary = "random-scheduler"
)

// schedulerPatience is how long a scheduler may take until it is ready and
// holds its lease.
const schedulerPatience = 90 * time.Second

// schedulerNames are the spec.schedulerName values that the demo deals out, in
// this order.
var schedulerNames = []string{corev1.DefaultSchedulerName, names.Scheduler, names.RandomScheduler}

// berthConfig is the configuration of berth-scheduler, below the checkout.
var berthConfig = filepath.Join("hack", "demo", "berth-scheduler.yaml")

// scheduler is how one of them is started and recognised.
type scheduler struct {
	// binary is its file below bin/.
	binary string
	// credential are the flags of "berth-local kubeconfig".
	credential []string
	// leaseNamespace and leaseName are where it is elected.
	leaseNamespace, leaseName string
	// arguments returns its command line, to serve at port and to use kubeconfig.
	arguments func(port int, kubeconfig string) []string
}

// schedulers lists them in the order of schedulerNames.
func (d *demo) schedulers() []scheduler {
	return []scheduler{
		{
			binary:     stockBinary,
			credential: []string{"--user", "system:kube-scheduler"},
			// The defaults of every scheduler that does not say otherwise.
			leaseNamespace: metav1.NamespaceSystem, leaseName: "kube-scheduler",
			arguments: func(port int, kubeconfig string) []string {
				return append(secureServing(port, kubeconfig), "--kubeconfig="+kubeconfig)
			},
		},
		{
			binary:         berthBinary,
			credential:     []string{"--service-account", names.Namespace + "/" + names.Scheduler},
			leaseNamespace: names.Namespace, leaseName: names.Scheduler,
			arguments: func(port int, kubeconfig string) []string {
				return append(secureServing(port, kubeconfig), "--kubeconfig="+kubeconfig, "--config="+filepath.Join(d.root, berthConfig))
			},
		},
		{
			binary:         randomBinary,
			credential:     []string{"--service-account", names.Namespace + "/" + names.RandomScheduler},
			leaseNamespace: names.Namespace, leaseName: names.RandomScheduler,
			arguments: func(port int, kubeconfig string) []string {
				return []string{
					"--kubeconfig=" + kubeconfig,
					"--secure-port=" + strconv.Itoa(port),
					// The verdict holds every scheduler to the nodes' resources.
					"--fit=resources",
				}
			},
		},
	}
}

// secureServing are the flags of a kube-scheduler that serves on this machine
// alone, and asks the API server about who is asking.
func secureServing(port int, kubeconfig string) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
}

// startSchedulers starts the three, each with its own credential, and waits
// until each is ready and leads.
func (d *demo) startSchedulers(ctx context.Context, fail func(error)) error {
	d.step("starting %s, %s (%s) and %s, each with a credential of its own", stockBinary, berthBinary, berthConfig, randomBinary)
	type running struct {
		scheduler
		process *process
		health  string
	}
	var all []running
	for _, s := range d.schedulers() {
		kubeconfig, err := d.credential(ctx, s.binary, s.credential...)
		if err != nil {
			return err
		}
		port, err := controlplane.FreePort()
		if err != nil {
			return err
		}
		p, err := d.start(fail, s.binary, s.arguments(port, kubeconfig)...)
		if err != nil {
			return err
		}
		all = append(all, running{s, p, fmt.Sprintf("https://127.0.0.1:%d/readyz", port)})
	}
	for _, r := range all {
		err := d.waitFor(ctx, schedulerPatience, r.process, "is not ready", func(ctx context.Context) (bool, error) {
			if !healthy(ctx, r.health) {
				return false, nil
			}
			return d.leads(ctx, r.leaseNamespace, r.leaseName)
		})
		if err != nil {
			return err
		}
		d.step("%s is ready and holds lease %s/%s", r.binary, r.leaseNamespace, r.leaseName)
	}
	return nil
}

// healthClient does not check certificates: each scheduler makes its own, and
// what it says is no secret.
var healthClient = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// healthy reports whether url answers with 200.
func healthy(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := healthClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // nothing of it was read
	return response.StatusCode == http.StatusOK
}

// leads reports whether the lease has a holder. The cluster is new: whoever holds
// it is of this run.
func (d *demo) leads(ctx context.Context, namespace, name string) (bool, error) {
	lease, err := d.client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading lease %s/%s: %w", namespace, name, err)
	}
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", nil
}
