// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

const (
	// startTimeout is how long a scheduler may take until it is ready and holds its
	// lease.
	startTimeout = 90 * time.Second
	// metricsTimeout is how long a scheduler may take to tell its metrics, on a machine
	// with all CPUs busy.
	metricsTimeout = 30 * time.Second
	// credentialLifetime is longer than any benchmark.
	credentialLifetime = 24 * time.Hour
	// stockUser is kube-scheduler's, with the rights that the API server gives it.
	stockUser = "system:kube-scheduler"
)

// Limit is what the clients of a scheduler may send.
type Limit struct {
	// QPS is in requests a second, and Burst how many may exceed it at once.
	QPS   float64
	Burst int
}

// Local starts schedulers against a control plane of this machine.
type Local struct {
	dataDir string
	dir     string
	limit   Limit
	config  *rest.Config
	client  kubernetes.Interface
	http    *http.Client
	running []*process.Process
}

// NewLocal prepares the control plane for schedulers: it creates the namespace,
// ServiceAccounts and roles of manifests/. Configurations, credentials and logs go
// to dir, which must exist. Close ends whatever still runs.
func NewLocal(ctx context.Context, cluster *localcluster.Cluster, dir string, limit Limit) (*Local, error) {
	l := &Local{dataDir: cluster.DataDir(), dir: dir, limit: limit, config: cluster.Config(), client: cluster.Client()}
	creator, err := dynamic.NewForConfig(l.config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the schedulers' rights: %w", err)
	}
	if err := grantRights(ctx, creator); err != nil {
		return nil, err
	}
	// A scheduler knows the administrator by the certificate; its own certificate is
	// made up, and what it says is no secret.
	config := rest.AnonymousClientConfig(l.config)
	config.TLSClientConfig = l.config.TLSClientConfig
	config.CAData, config.CAFile, config.Insecure = nil, "", true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the schedulers' metrics: %w", err)
	}
	client.Timeout = metricsTimeout
	l.http = client
	return l, nil
}

// Close kills what still runs.
func (l *Local) Close() {
	for _, p := range l.running {
		p.Kill()
	}
}

// Start starts a scheduler as a new process, or BareBinder, and returns when it is
// ready and holds its lease. An earlier one that holds the same lease must have been
// stopped.
func (l *Local) Start(ctx context.Context, spec *Spec, place Place) (Running, error) {
	if spec.Bare() {
		return startBareBinder(ctx, l.config, l.limit, place)
	}
	kubeconfig, err := l.credential(ctx, spec)
	if err != nil {
		return nil, err
	}
	port, err := localcluster.FreePort()
	if err != nil {
		return nil, err
	}
	var args []string
	if spec.Name == names.RandomScheduler {
		args = l.randomArguments(kubeconfig, port)
	} else if args, err = l.schedulerArguments(spec, kubeconfig, port); err != nil {
		return nil, err
	}
	// Its predecessor's, which it would wait for if that did not give it back.
	namespace, lease, elected := spec.lease()
	err = l.client.CoordinationV1().Leases(namespace).Delete(ctx, lease, metav1.DeleteOptions{})
	if elected && err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("deleting lease %s/%s: %w", namespace, lease, err)
	}
	p, err := startProcess(spec.Binary, args, filepath.Join(l.dir, spec.Name+".log"))
	if err != nil {
		return nil, err
	}
	l.running = append(l.running, p.Process)
	base := fmt.Sprintf("https://127.0.0.1:%d", port)
	if spec.Name == names.RandomScheduler {
		base = fmt.Sprintf("http://127.0.0.1:%d", port)
	}
	p.http, p.metrics = l.http, base+"/metrics"
	ready := process.Ready(l.http, base+"/readyz")
	err = p.WaitFor(ctx, startTimeout, "is not ready", func(ctx context.Context) (bool, error) {
		ok, err := ready(ctx)
		return ok && (!elected || l.held(ctx, namespace, lease)), err
	})
	if err != nil {
		_, stopErr := p.Stop()
		return nil, errors.Join(err, stopErr)
	}
	return p, nil
}

// Lease returns where a scheduler is elected, if it is.
func (l *Local) Lease(spec *Spec) (namespace, name string, elected bool) {
	if spec.Bare() {
		return "", "", false
	}
	return spec.lease()
}

// held reports whether the lease has a holder.
func (l *Local) held(ctx context.Context, namespace, name string) bool {
	lease, err := l.client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

// credential writes the kubeconfig of a scheduler: kube-scheduler's user, or the
// ServiceAccount that the manifests give it.
func (l *Local) credential(ctx context.Context, spec *Spec) (string, error) {
	var content []byte
	var err error
	switch filepath.Base(spec.Binary) {
	case stockBinary:
		content, err = localcluster.UserKubeconfig(l.dataDir, stockUser)
	case randomBinary:
		content, err = localcluster.ServiceAccountKubeconfig(ctx, l.dataDir, names.Namespace, names.RandomScheduler, credentialLifetime)
	default:
		content, err = localcluster.ServiceAccountKubeconfig(ctx, l.dataDir, names.Namespace, names.Scheduler, credentialLifetime)
	}
	if err != nil {
		return "", fmt.Errorf("the credential of %s: %w", spec.Name, err)
	}
	return l.write(spec.Name+".kubeconfig", content)
}

// randomArguments are random-scheduler's.
func (l *Local) randomArguments(kubeconfig string, port int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1:" + strconv.Itoa(port),
		"--kube-api-qps=" + strconv.FormatFloat(l.limit.QPS, 'f', -1, 64),
		"--kube-api-burst=" + strconv.Itoa(l.limit.Burst),
		// A node that is asked for more than it has is no placement.
		"--fit=resources",
	}
}

// schedulerArguments are those of kube-scheduler and berth-scheduler.
func (l *Local) schedulerArguments(spec *Spec, kubeconfig string, port int) ([]string, error) {
	content, err := spec.configuration(kubeconfig, l.limit)
	if err != nil {
		return nil, err
	}
	config, err := l.write(spec.Name+".yaml", content)
	if err != nil {
		return nil, err
	}
	var more []string
	if filepath.Base(spec.Binary) == berthBinary {
		// This cluster has one scheduler at a time.
		more = append(more, "--sole-default-scheduler")
	}
	return append(more,
		"--config="+config,
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port),
		// Who may read the metrics is asked as the same user.
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--cert-dir="+filepath.Join(l.dir, spec.Name+".certs"),
	), nil
}

// configuration is the file that a scheduler is started with: the profile's, or one
// that says nothing, with clientConnection replaced, and with the one profile renamed
// if it has another name.
func (s *Spec) configuration(kubeconfig string, limit Limit) ([]byte, error) {
	document := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	if s.content != nil {
		document = map[string]any{}
		if err := yaml.Unmarshal(s.content, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Profile, err)
		}
	}
	connection, ok := document["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		document["clientConnection"] = connection
	}
	connection["kubeconfig"], connection["qps"], connection["burst"] = kubeconfig, limit.QPS, limit.Burst
	if profiles, ok := document["profiles"].([]any); ok && len(profiles) == 1 {
		if profile, ok := profiles[0].(map[string]any); ok {
			profile["schedulerName"] = s.Name
		}
	}
	content, err := yaml.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of %s: %w", s.Name, err)
	}
	return content, nil
}

// write writes a file that only its owner can read, and returns its path.
func (l *Local) write(name string, content []byte) (string, error) {
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("writing a file for a scheduler: %w", err)
	}
	return path, nil
}
