// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"slices"
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
	// port of 127.0.0.1 serves /healthz, /readyz and /metrics, by http or https.
	port   int
	scheme string
	http   *http.Client
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
	return c.RunScheduler(tb, bin, options.Kubeconfig, append([]string{"--config=" + config, "-v=2"}, options.Args...)...)
}

// RunScheduler starts a scheduler binary with these arguments and a free port.
func (c *Cluster) RunScheduler(tb testing.TB, bin, kubeconfig string, args ...string) *Scheduler {
	tb.Helper()
	client, err := adminHTTPClient(c.Config)
	if err != nil {
		tb.Fatal(err)
	}
	port := FreePort(tb)
	if bin == RandomScheduler {
		args = append(slices.Clone(args), fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--kubeconfig="+kubeconfig)
		return &Scheduler{Process: StartProcess(tb, bin, args...), scheme: "http", port: port, http: client}
	}
	// Who may read /metrics is looked up as the same user. In a pod, all default to the
	// ServiceAccount's token.
	args = append(slices.Clone(args), "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	return &Scheduler{Process: StartProcess(tb, bin, args...), scheme: "https", port: port, http: client}
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

// Ready asks /readyz once, like the kubelet without saying who it is.
func (s *Scheduler) Ready(tb testing.TB) error {
	tb.Helper()
	code, body, err := s.Get(tb.Context(), "/readyz", "")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("/readyz answered %d: %s", code, body)
	}
	return err
}

// Get asks for a path with a bearer token, or anonymously if that is empty, and
// returns the status code and the body.
func (s *Scheduler) Get(ctx context.Context, path, token string) (int, string, error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate is self-signed
		DisableKeepAlives: true,
	}}
	return get(ctx, client, s.url(path), token)
}

// Metrics returns the page /metrics, as the administrator sees it.
func (s *Scheduler) Metrics(tb testing.TB) string {
	tb.Helper()
	return s.Page(tb, "/metrics")
}

// Page returns what it serves at a path, as the administrator sees it.
func (s *Scheduler) Page(tb testing.TB, path string) string {
	tb.Helper()
	var body string
	WaitForCondition(tb, WaitTimeout, s.Name+" to know who asks for "+path, func() (bool, error) {
		code, page, err := get(tb.Context(), s.http, s.url(path), "")
		switch {
		case err != nil:
			tb.Fatal(err)
		case code == http.StatusUnauthorized || code == http.StatusForbidden:
			// A scheduler that has just started takes a connection for anonymous, for
			// good, until it has read by which authority clients are known.
			s.http.CloseIdleConnections()
		case code != http.StatusOK:
			tb.Fatalf("%s answered %d: %s", path, code, page)
		}
		body = page
		return code == http.StatusOK, fmt.Errorf("%s answered %d", path, code)
	})
	return body
}

// Address is the host and port that it serves at.
func (s *Scheduler) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *Scheduler) url(path string) string {
	return fmt.Sprintf("%s://%s%s", s.scheme, s.Address(), path)
}
