// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

// failureTail is how many lines of each log a failed test prints.
const failureTail = 10

// Options say what a test wants. The zero value is a control plane without nodes.
type Options struct {
	// NodeCount is the number of nodes from localcluster.FakeNodes.
	NodeCount int
	// Nodes are created besides.
	Nodes []corev1.Node
	// NodesFile is a file of Nodes, relative to the repository's root, besides.
	NodesFile string
	// DataDir is the folder to use. Default: a new one that goes with the test.
	DataDir string
	// Executable is the berth-local to use. Default: that of this minor release of
	// Kubernetes.
	Executable string
	// Audit makes the API server write Cluster.AuditLog.
	Audit bool
	// StartTimeout is how long the start may take. Default: that of berth-local.
	StartTimeout time.Duration
	// APIServerArgs and ControllerManagerArgs are further flags of the two.
	APIServerArgs         []string
	ControllerManagerArgs []string
}

// Cluster is a control plane that runs until its test ends. The embedded one can
// kill and restart single components.
type Cluster struct {
	*localcluster.Cluster
	// Kubeconfig is the file with the administrator's kubeconfig, and Config what
	// it says, without a client-side rate limit. Client is a client made of it.
	Kubeconfig string
	Config     *rest.Config
	Client     kubernetes.Interface
	// DataDir is the control plane's folder, and LogDir one for the logs of
	// processes that the test starts.
	DataDir string
	LogDir  string
	// AuditLog is the API server's audit log, empty unless Options asked for it.
	AuditLog string
}

// Start starts a control plane and returns when it is usable and its nodes are
// ready. It skips the test under -short.
func Start(tb testing.TB, options Options) *Cluster {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts a control plane: skipped under -short")
	}
	c := &Cluster{DataDir: options.DataDir, LogDir: tb.TempDir()}
	if c.DataDir == "" {
		c.DataDir = tb.TempDir()
	}
	if options.Audit {
		c.AuditLog = filepath.Join(c.LogDir, "audit.log")
	}
	nodes := append(localcluster.FakeNodes(options.NodeCount), options.Nodes...)
	if options.NodesFile != "" {
		more, err := localcluster.ReadNodesFile(fromRoot(options.NodesFile))
		if err != nil {
			tb.Fatal(err)
		}
		nodes = append(nodes, more...)
	}
	if options.Executable == "" {
		options.Executable = Binary(tb, BerthLocal)
	}
	var err error
	c.Cluster, err = localcluster.Start(tb.Context(), localcluster.Options{
		Executable:            options.Executable,
		DataDir:               c.DataDir,
		Nodes:                 nodes,
		AuditLog:              c.AuditLog,
		APIServerArgs:         options.APIServerArgs,
		ControllerManagerArgs: options.ControllerManagerArgs,
		StartTimeout:          options.StartTimeout,
		NoFsync:               true,
	})
	if err != nil {
		tb.Fatalf("starting a control plane: %v", err)
	}
	tb.Cleanup(func() { c.finish(tb) })
	c.Kubeconfig, c.Config, c.Client = c.AdminKubeconfig(), c.Cluster.Config(), c.Cluster.Client()
	return c
}

// finish stops the control plane, and tells what it knows if the test failed.
func (c *Cluster) finish(tb testing.TB) {
	select {
	case failure := <-c.Failed():
		tb.Errorf("during the test, %v", failure)
	default:
	}
	if err := c.Stop(); err != nil {
		tb.Errorf("stopping the control plane: %v", err)
	}
	if !tb.Failed() {
		return
	}
	for _, component := range localcluster.Components() {
		tb.Logf("the end of the log of %s:\n%s", component, c.LogTail(component, failureTail))
	}
	if failure, ok := failures.LoadAndDelete(rootName(tb)); ok {
		tb.Logf("the test failed: %s", failure)
	}
}

// fromRoot resolves a path that is relative to the repository's root.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(Root(), path)
}

// write writes a file that only the test's own user may read.
func write(tb testing.TB, path string, content []byte) string {
	tb.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
