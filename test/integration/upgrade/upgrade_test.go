// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces a running scheduler by that of another release, and the control
// plane below it, while pods with shares of devices come and go.
package upgrade

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// previousRelease is the commit that stands for the release before this one, until there
// is a first release.
const previousRelease = "efb9379827351c9ba3ea450a60f3061aa5262909"

// previousCheckout names the environment variable with a folder that holds that commit,
// built; without it the test takes both out of git.
const previousCheckout = "BERTH_PREVIOUS"

// installation is what an administrator applies and the scheduler that comes with it.
type installation struct {
	name      string
	manifests string // empty: those that are applied already
	binary    string
}

// current is this tree's.
func current(t *testing.T) installation {
	t.Helper()
	return installation{"this tree", install.Path("manifests/overlays/gpu"), framework.Binary(t, framework.BerthScheduler)}
}

// previous returns the release before, built from git unless it is at hand.
func previous(t *testing.T) installation {
	t.Helper()
	dir := os.Getenv(previousCheckout)
	if dir == "" {
		dir = t.TempDir()
		archive := exec.CommandContext(t.Context(), "git", "archive", previousRelease)
		archive.Dir = framework.Root()
		content, err := archive.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := archive.Start(); err != nil {
			t.Fatal(err)
		}
		unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
		unpack.Stdin = content
		output, err := unpack.CombinedOutput()
		_, _ = io.Copy(io.Discard, content)
		if archive.Wait() != nil {
			t.Skipf("git does not have commit %s, the previous release: fetch the whole history, or name a folder with it in %s", previousRelease, previousCheckout)
		}
		if err != nil {
			t.Fatalf("unpacking commit %s: %v\n%s", previousRelease, err, output)
		}
		build := exec.CommandContext(t.Context(), "make", "build-binary", "BINARY="+framework.BerthScheduler, "VERSION=v0.0.1")
		build.Dir = dir
		build.Env = append(os.Environ(), "MAKEFLAGS=", "MAKEOVERRIDES=", "GOFLAGS=")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building commit %s: %v\n%s", previousRelease, err, output)
		}
	}
	return installation{"the previous release", filepath.Join(dir, "manifests/overlays/gpu"), filepath.Join(dir, "bin", framework.BerthScheduler)}
}

// rollout is a Deployment's scheduler that is replaced while pods come and go.
type rollout struct {
	t       *testing.T
	c       *framework.Cluster
	watch   *gpuchurn.Watch
	load    *gpuchurn.Churn
	arrived chan error
	// running is the scheduler of release. Where one may end that could not renew its
	// lease, it is started again, as its kubelet would; restarts counts that.
	running  *framework.Scheduler
	release  installation
	mayEnd   bool
	restarts int
	// pods is how many pods of the Deployment have been started.
	pods int
}

// startRollout installs a release and lets pods with shares come and go.
func startRollout(t *testing.T, c *framework.Cluster, first installation) *rollout {
	t.Helper()
	c.Apply(t, `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}`)
	r := &rollout{t: t, c: c, arrived: make(chan error, 1), release: first}
	c.ApplyManifests(t, first.manifests)
	r.running = r.start(first)
	waitLeads(t, r.running)
	r.watch = gpuchurn.StartWatch(t, c)
	r.load = &gpuchurn.Churn{C: c, Watch: r.watch, Pods: math.MaxInt, Alive: 72, Unseen: 48, Seed: 15}
	r.load.Limit.Store(math.MaxInt64)
	go func() { r.arrived <- r.load.Run(t.Context()) }()
	r.bindings("at first", 100)
	return r
}

// start runs a release as the next pod of the Deployment: with a host name like a pod's, by
// which a replica knows one that serves the same pods, whichever release that is of.
func (r *rollout) start(next installation) *framework.Scheduler {
	r.t.Helper()
	r.pods++
	namespaces := "--uts"
	if os.Geteuid() != 0 {
		namespaces = "--user --map-root-user --uts"
	}
	script := fmt.Sprintf("#!/bin/sh\nexec unshare %s sh -c 'echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"' %s-5d4f8b7c9-%05d '%s' \"$@\"\n",
		namespaces, names.Scheduler, r.pods, next.binary)
	binary := filepath.Join(r.t.TempDir(), names.Scheduler)
	if err := os.WriteFile(binary, []byte(script), 0o755); err != nil { //nolint:gosec // It is run.
		r.t.Fatal(err)
	}
	return install.StartRelease(r.t, r.c, names.Namespace, names.Scheduler, binary)
}

// bindings waits for n more Bindings.
func (r *rollout) bindings(when string, n int) {
	r.t.Helper()
	_, before := r.watch.Counts()
	framework.WaitForCondition(r.t, 5*framework.WaitTimeout, fmt.Sprintf("%d pods to be bound %s", n, when), func() (bool, error) {
		if r.mayEnd && !r.running.Running() {
			r.restarts++
			r.running = r.start(r.release)
		}
		_, now := r.watch.Counts()
		return now >= before+n, fmt.Errorf("%d were", now-before)
	})
}

func waitLeads(t *testing.T, s *framework.Scheduler) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler to lead", func() (bool, error) { return gpuchurn.Leads(s), nil })
}

// move does what `kubectl apply -k` and a Deployment's rollout do: the next one's
// manifests, its pod beside the one that leads, and when that is ready, the end of the
// other. It returns how long nobody led.
func (r *rollout) move(next installation, end syscall.Signal) time.Duration {
	r.t.Helper()
	if next.manifests != "" {
		r.c.ApplyManifests(r.t, next.manifests)
	}
	started := r.start(next)
	started.WaitReady(r.t)
	r.bindings("while "+next.name+" is on standby", 20)
	if gpuchurn.Leads(started) {
		r.t.Fatalf("%s leads beside the scheduler that it is to replace", next.name)
	}
	r.running.Signal(end)
	ended := time.Now()
	waitLeads(r.t, started)
	without := time.Since(ended)
	r.running, r.release = started, next
	r.bindings("by "+next.name, 150)
	return without
}

// finish stops the load and has the oracle look at all that happened.
func (r *rollout) finish() {
	r.t.Helper()
	r.load.Limit.Store(-1)
	if err := <-r.arrived; err != nil {
		r.t.Fatal(err)
	}
	devices, pods := gpuchurn.WaitSettled(r.t, r.c, -1)
	history, versions, bindings := r.watch.History.Violations()
	lost := oracle.CheckLost(r.load.Kept, pods)
	if violations := slices.Concat(devices.Violations, lost, history); len(violations) > 0 {
		r.t.Error(violations)
	}
	gpuchurn.RequireView(r.t, r.c, r.running, names.Scheduler)
	r.t.Logf("%d pods came, %d went; %d versions of pods with %d bindings seen; at the end %d bound, %d pending, %d devices given twice, %d pods lost",
		r.load.Created, r.load.Deleted, versions, bindings, devices.Bound, devices.Pending, len(devices.Violations.Of(oracle.Overcommitted)), len(lost))
}

// TestUpgrade goes from the previous release to this tree, back, and there again, by the
// manifests of each, while pods with shares come and go. The second time the scheduler
// that is replaced is killed. No device is given twice, no pod is lost, and the last
// scheduler counts as the API does.
func TestUpgrade(t *testing.T) {
	framework.OnlyLong(t)
	before, after := previous(t), current(t)
	r := startRollout(t, framework.Start(t, framework.Options{Nodes: gpuchurn.Nodes(8, 4)}), before)
	up := r.move(after, syscall.SIGTERM)
	back := r.move(before, syscall.SIGTERM)
	killed := r.move(after, syscall.SIGKILL)
	r.finish()
	t.Logf("without a leader: %v up, %v back, %v up after a kill", up.Round(time.Millisecond), back.Round(time.Millisecond), killed.Round(time.Millisecond))
}

// TestUpgradeOfTheControlPlane does what manifests/README.md says of the releases of
// Kubernetes: the control plane goes to the next one under Berth's build for the older,
// then Berth follows; and back to the older build, which serves both.
func TestUpgradeOfTheControlPlane(t *testing.T) {
	framework.OnlyLong(t)
	if compat.Release == "1.36" {
		t.Skip("begins with the release before, and there is no build for it")
	}
	older := installation{"the build for 1.36", install.Path("manifests/overlays/gpu"), framework.BinaryOf(t, "1.36", framework.BerthScheduler)}
	newer := current(t)
	newer.manifests = "" // the same
	dir := filepath.Join(t.TempDir(), "data")
	c := framework.Start(t, framework.Options{DataDir: dir, Executable: framework.BinaryOf(t, "1.36", framework.BerthLocal), Nodes: gpuchurn.Nodes(8, 4)})
	r := startRollout(t, c, older)

	r.mayEnd = true
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	next := framework.Start(t, framework.Options{DataDir: dir})
	if served, err := next.Client.Discovery().ServerVersion(); err != nil || !strings.HasPrefix(served.GitVersion, "v"+compat.Release+".") {
		t.Fatalf("the API server says %v, %v", served, err)
	}
	if next.Config.Host != c.Config.Host {
		t.Fatalf("the API server is at %s now, and was at %s", next.Config.Host, c.Config.Host)
	}
	r.c = next
	r.bindings("by the build for 1.36 on the newer API server", 150)
	pause := time.Since(stopped)
	r.mayEnd = false

	older.manifests = ""
	up := r.move(newer, syscall.SIGTERM)
	back := r.move(older, syscall.SIGTERM)
	killed := r.move(newer, syscall.SIGKILL)
	r.finish()
	t.Logf("%v from the end of the older control plane to 150 pods bound on the newer, %d restarts of the scheduler meanwhile; without a leader: %v up, %v back, %v up after a kill",
		pause.Round(time.Second), r.restarts, up.Round(time.Millisecond), back.Round(time.Millisecond), killed.Round(time.Millisecond))
}
