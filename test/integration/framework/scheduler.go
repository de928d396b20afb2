// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// SchedulerOptions say how a scheduler runs in a test. The zero value is one
// replica without leader election on a free port.
type SchedulerOptions struct {
	// Kubeconfig is the credential. Default: the scheduler's own.
	Kubeconfig string
	// LeaderElect keeps the leader election of the configuration. Without it a
	// killed scheduler's successor need not wait for the lease to expire.
	LeaderElect bool
	// Args are further flags.
	Args []string
}

// Scheduler is a scheduler process.
type Scheduler struct {
	*Process
	// Port serves /healthz, /readyz and /metrics over HTTPS, as 127.0.0.1.
	Port int
	http *http.Client
}

// StartBerthScheduler starts berth-scheduler with a KubeSchedulerConfiguration,
// a file relative to the repository's root, and waits until its informers have
// synced. Its credential is a token of the ServiceAccount that the manifests
// create: apply those first.
func (c *Cluster) StartBerthScheduler(tb testing.TB, configPath string, options SchedulerOptions) *Scheduler {
	tb.Helper()
	if options.Kubeconfig == "" {
		options.Kubeconfig = c.ServiceAccountKubeconfig(tb, names.Namespace, names.Scheduler)
	}
	scheduler := c.LaunchScheduler(tb, BerthScheduler, configPath, options)
	scheduler.WaitReady(tb)
	return scheduler
}

// StartStockScheduler starts Kubernetes' own scheduler as system:kube-scheduler,
// with its default profile or, if configPath is not empty, with another, and waits
// until its informers have synced.
func (c *Cluster) StartStockScheduler(tb testing.TB, configPath string, options SchedulerOptions) *Scheduler {
	tb.Helper()
	if options.Kubeconfig == "" {
		options.Kubeconfig = c.StockSchedulerKubeconfig(tb)
	}
	scheduler := c.LaunchScheduler(tb, KubeScheduler, configPath, options)
	scheduler.WaitReady(tb)
	return scheduler
}

// LaunchScheduler starts a scheduler binary with a configuration and a credential
// and returns at once, whatever becomes of it. An empty configPath stands for the
// default configuration.
func (c *Cluster) LaunchScheduler(tb testing.TB, bin, configPath string, options SchedulerOptions) *Scheduler {
	tb.Helper()
	config := c.SchedulerConfig(tb, configPath, options.Kubeconfig, options.LeaderElect)
	port := FreePort(tb)
	args := append([]string{
		"--config=" + config,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		// Who may read /metrics and /readyz is looked up as the same user.
		"--authentication-kubeconfig=" + options.Kubeconfig,
		"--authorization-kubeconfig=" + options.Kubeconfig,
		// The serving certificate is made up, and must not be left in the tree.
		"--cert-dir=" + filepath.Join(c.LogDir, "scheduler-"+strconv.Itoa(port)),
		"-v=2",
	}, options.Args...)
	client, err := adminHTTPClient(c.Config)
	if err != nil {
		tb.Fatal(err)
	}
	return &Scheduler{Process: StartProcess(tb, bin, args...), Port: port, http: client}
}

// SchedulerConfig writes a copy of a KubeSchedulerConfiguration whose clients use
// kubeconfig, and returns the copy's path: a stock scheduler ignores --kubeconfig
// beside --config. An empty configPath stands
// for the default configuration. Without leaderElect the copy switches it off.
func (c *Cluster) SchedulerConfig(tb testing.TB, configPath, kubeconfig string, leaderElect bool) string {
	tb.Helper()
	config := map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1",
		"kind":       "KubeSchedulerConfiguration",
	}
	if configPath != "" {
		content, err := os.ReadFile(fromRoot(configPath))
		if err != nil {
			tb.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &config); err != nil {
			tb.Fatalf("reading %s: %v", configPath, err)
		}
	}
	section(config, "clientConnection")["kubeconfig"] = kubeconfig
	if !leaderElect {
		section(config, "leaderElection")["leaderElect"] = false
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	file, err := os.CreateTemp(c.LogDir, "scheduler-*.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	if err := file.Close(); err != nil {
		tb.Fatal(err)
	}
	return write(tb, file.Name(), content)
}

// section returns a nested object of a configuration, made if it is missing.
func section(config map[string]any, name string) map[string]any {
	nested, ok := config[name].(map[string]any)
	if !ok {
		nested = map[string]any{}
		config[name] = nested
	}
	return nested
}

// WaitReady waits until /readyz says that the scheduler's informers have synced.
// With leader election that does not mean that it leads.
func (s *Scheduler) WaitReady(tb testing.TB) {
	tb.Helper()
	WaitForCondition(tb, WaitTimeout, s.Name+" to be ready", func() (bool, error) {
		if !s.Running() {
			tb.Fatalf("%s ended with code %d before it was ready", s.Name, s.ExitCode())
		}
		err := s.Ready(tb)
		return err == nil, err
	})
}

// Ready asks /readyz once.
func (s *Scheduler) Ready(tb testing.TB) error {
	tb.Helper()
	_, err := s.get(tb, "/readyz")
	return err
}

// Metrics returns the page /metrics, as the administrator sees it.
func (s *Scheduler) Metrics(tb testing.TB) string {
	tb.Helper()
	var body string
	WaitForCondition(tb, WaitTimeout, s.Name+" to know who asks for its metrics", func() (bool, error) {
		var err error
		body, err = s.get(tb, "/metrics")
		if _, unknown := errors.AsType[notKnownError](err); err != nil && !unknown {
			tb.Fatal(err)
		}
		return err == nil, err
	})
	return body
}

func (s *Scheduler) get(tb testing.TB, path string) (string, error) {
	return get(tb.Context(), s.http, fmt.Sprintf("https://127.0.0.1:%d%s", s.Port, path))
}
