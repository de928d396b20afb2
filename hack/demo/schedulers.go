// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

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

// The schedulerNames of berth-scheduler's further profiles: the one for shares of
// devices, and the one for pods near the Services that they talk to.
const (
	gpuScheduler  = "berth-gpu"
	nearScheduler = "berth-colocation"
)

// allSchedulerNames are those and the further profiles', to which no Deployment is
// dealt.
var allSchedulerNames = append(slices.Clone(schedulerNames), gpuScheduler, nearScheduler)

// The shipped files with berth-scheduler's profiles, below the checkout.
var (
	ruleConfig = filepath.Join("config", "berth-scheduler", "labelpresence.yaml")
	gpuConfig  = filepath.Join("config", "berth-scheduler", "gpu.yaml")
	nearConfig = filepath.Join("config", "berth-scheduler", "colocation.yaml")
)

// scheduler is how one of them is started and recognised.
type scheduler struct {
	// binary is its file below bin/.
	binary string
	// credential are the flags of "berth-local kubeconfig".
	credential []string
	// leaseNamespace and leaseName are where it is elected.
	leaseNamespace, leaseName string
	// arguments returns its command line, to serve at port and to use kubeconfig.
	arguments func(port int, kubeconfig string) ([]string, error)
	// scheme is what it serves its health with.
	scheme string
}

// schedulers lists them in the order of schedulerNames.
func (d *demo) schedulers() []scheduler {
	return []scheduler{
		{
			binary:     stockBinary,
			credential: []string{"--user", "system:kube-scheduler"},
			// The defaults of every scheduler that does not say otherwise.
			leaseNamespace: metav1.NamespaceSystem, leaseName: "kube-scheduler",
			scheme: "https",
			arguments: func(port int, kubeconfig string) ([]string, error) {
				return append(secureServing(port, kubeconfig), "--kubeconfig="+kubeconfig), nil
			},
		},
		{
			binary:         berthBinary,
			credential:     []string{"--service-account", names.Namespace + "/" + names.Scheduler},
			leaseNamespace: names.Namespace, leaseName: names.Scheduler,
			scheme: "https",
			arguments: func(port int, kubeconfig string) ([]string, error) {
				config, err := d.configuration(kubeconfig)
				return append(secureServing(port, kubeconfig), "--config="+config), err
			},
		},
		{
			binary:         randomBinary,
			credential:     []string{"--service-account", names.Namespace + "/" + names.RandomScheduler},
			leaseNamespace: names.Namespace, leaseName: names.RandomScheduler,
			scheme: "http",
			arguments: func(port int, kubeconfig string) ([]string, error) {
				return []string{
					"--kubeconfig=" + kubeconfig,
					"--http-bind-address=" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
					// The verdict holds every scheduler to the nodes' resources.
					"--fit=resources",
				}, nil
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

// configuration writes what berth-scheduler runs with: the shipped file with the
// rule, the profiles of two others as further profiles of the same process, and the
// kubeconfig to use, which is the one thing that --config takes from no flag. All
// files name their profile berth-scheduler, so the further ones are renamed.
func (d *demo) configuration(kubeconfig string) (string, error) {
	config, profiles, err := d.readConfig(ruleConfig)
	if err != nil {
		return "", err
	}
	for _, further := range []struct{ file, name string }{{gpuConfig, gpuScheduler}, {nearConfig, nearScheduler}} {
		profile, err := d.readProfile(further.file)
		if err != nil {
			return "", err
		}
		profile["schedulerName"] = further.name
		profiles = append(profiles, profile)
	}
	config["profiles"] = profiles
	if err := unstructured.SetNestedField(config, kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return "", fmt.Errorf("%s: %w", ruleConfig, err)
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("writing berth-scheduler's configuration: %w", err)
	}
	target := d.path("berth-scheduler.yaml")
	if err := os.WriteFile(target, content, 0o600); err != nil {
		return "", fmt.Errorf("writing berth-scheduler's configuration: %w", err)
	}
	return target, nil
}

// readProfile reads a configuration of the checkout that has one profile.
func (d *demo) readProfile(file string) (map[string]any, error) {
	_, profiles, err := d.readConfig(file)
	if err != nil {
		return nil, err
	}
	if len(profiles) != 1 {
		return nil, fmt.Errorf("%s has %d profiles, and one is needed", file, len(profiles))
	}
	profile, ok := profiles[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: profiles[0] is no mapping", file)
	}
	return profile, nil
}

// readConfig reads a configuration of the checkout, and its profiles.
func (d *demo) readConfig(file string) (config map[string]any, profiles []any, err error) {
	content, err := os.ReadFile(filepath.Join(d.root, file))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a configuration of berth-scheduler: %w", err)
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	profiles, _, err = unstructured.NestedSlice(config, "profiles")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return config, profiles, nil
}

// startSchedulers starts the three, each with its own credential, and waits
// until each is ready and leads.
func (d *demo) startSchedulers(ctx context.Context, fail func(error)) error {
	d.step("starting %s, %s (%s, and the profiles of %s as %s and of %s as %s) and %s, each with a credential of its own",
		stockBinary, berthBinary, ruleConfig, gpuConfig, gpuScheduler, nearConfig, nearScheduler, randomBinary)
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
		args, err := s.arguments(port, kubeconfig)
		if err != nil {
			return err
		}
		p, err := d.start(fail, s.binary, args...)
		if err != nil {
			return err
		}
		all = append(all, running{s, p, fmt.Sprintf("%s://127.0.0.1:%d/readyz", s.scheme, port)})
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
