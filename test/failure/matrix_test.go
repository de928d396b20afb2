// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failure breaks what Berth runs on, one thing at a time, while pods with shares of
// devices arrive and leave, and has pkg/oracle say from the API alone whether a device
// was given twice or a pod lost. etcd, the API server and the schedulers are processes.
//
// A fault is a function and a row of faults. TestMatrix runs each, and prints what was
// checked and how long it took until pods were placed again; `make test-failure` puts that
// into README.md. Under make test it runs the short ones, with quick leases.
package failure

import (
	"cmp"
	"flag"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

var (
	runs   = flag.Int("runs", 1, "how often each fault happens")
	update = flag.Bool("update", false, "write what was measured into README.md")
)

// fault is one row of the matrix.
type fault struct {
	// name is the subtest's, and text what the table calls it.
	name, text string
	// happen makes it happen while pods come, and returns when it was over, from which
	// recovery counts.
	happen func(*scene) time.Time
	// prepare sets up what the fault needs before pods come; nil for nothing.
	prepare func(*scene)
	// short ones run under make test.
	short bool
	// nodes is how many there are. Default: 20.
	nodes int
	// network has the schedulers' requests pass a proxy, relayed has each reach the API server
	// through a relay of its own, shifted their clock be shifted, and token has them read their
	// token from a file.
	network, relayed, shifted, token bool
	// away is whether the control plane does not run all the time: its audit log has gaps then.
	away bool
}

func faults() []fault {
	return []fault{
		{name: "kill-scheduler", text: "kill -9 of the leading scheduler", happen: killScheduler, short: true},
		{name: "kill-etcd", text: "kill -9 of etcd", happen: killComponent(localcluster.Etcd), away: true},
		{name: "kill-apiserver", text: "kill -9 of the API server", happen: killComponent(localcluster.APIServer), away: true},
		{name: "leader-lost-while-binding", text: "leader killed with Bindings on their way, which arrive later", happen: leaderLostWhileBinding, short: true, network: true},
		{name: "apiserver-away", text: "API server away for 30 s", happen: apiServerAway, away: true},
		{name: "watch-expired", text: "watches broken, and what they missed compacted away in etcd", happen: watchExpired, network: true, away: true},
		{name: "etcd-restored", text: "etcd restored from an older snapshot (`--bump-revision --mark-compacted`)", happen: restored, away: true},
		{name: "slow-api", text: "300 ms more for each request", happen: slowAPI, network: true},
		{name: "lost-answers", text: "5 % of the answers lost", happen: lostAnswers, network: true},
		{name: "too-many-requests", text: "4 of 5 requests answered with 429", happen: tooManyRequests, network: true},
		{name: "clock-jumps", text: "clock 10 minutes forward, then 20 back", happen: clockJumps, shifted: true},
		{name: "rival-bindings", text: "another scheduler binds the same pods first", happen: rivalBindings, short: true, network: true},
		{name: "nodes-gone", text: "500 nodes gone at once, and back under the same names", happen: nodesGone, nodes: 500},
		{name: "unschedulable", text: "20,000 pods that fit nowhere in front of one that fits", happen: unschedulable},
		{name: "paused-leader", text: "leader paused until its lease has run out, and resumed", happen: pausedLeader, short: true},
		{name: "deaf-leader", text: "partition: the leader sends, and hears nothing", happen: deafLeader, relayed: true},
		{name: "mute-leader", text: "partition: the leader hears, and what it sends arrives after its lease", happen: muteLeader, relayed: true},
		{name: "token-replaced", text: "the schedulers' token revoked, and then replaced in its file", happen: tokenReplaced, token: true},
		{name: "unwritable-pod", text: "leader killed beside a pending pod so large that nothing can be written to it", happen: unwritablePod, away: true},
		{name: "flapping-devices", text: "labels and resources of GPU nodes that flap, twenty a second", happen: flappingDevices},
		{name: "second-berth", text: "a second Berth with a GPU pool of its own, and nodes that change pools, two a second", prepare: startSecond, happen: poolsChange},
		{name: "stale-reads", text: "two API servers by turns, one of them 1.5 s behind etcd; both schedulers killed", happen: staleReads, network: true, away: true},
		{name: "etcd-out-of-space", text: "etcd out of its quota (NOSPACE) until the leader has lost its lease, then compacted and disarmed", happen: etcdOutOfSpace, away: true},
		{name: "disk-full", text: "etcd's disk full until the leader has lost its lease", happen: diskFull, away: true},
		{name: "memory-limit", text: "leader out of memory (RLIMIT_DATA)", happen: memoryLimit},
		{name: "read-only-disk", text: "schedulers replaced by some that can write to no file", happen: readOnlyDisk},
	}
}

// options are those of the control plane of all faults. The collector of orphaned pods
// would delete those of nodes that come back a little later.
func options() framework.Options {
	return framework.Options{
		Audit:                 true,
		APIServerArgs:         []string{"--audit-policy-file=" + filepath.Join(framework.Root(), "cmd/kubectl-berth/audit-policy.yaml"), "--audit-log-maxsize=100000"},
		ControllerManagerArgs: []string{"--controllers=*,-ttl-controller,-pod-garbage-collector-controller"},
	}
}

// TestMatrix makes each fault happen, and checks that no device was given twice and no pod
// lost, and that pods are placed again. In the end it forges a record in the log of a run.
func TestMatrix(t *testing.T) {
	shared := framework.NewShared(t, options(), func(c *framework.Cluster) { c.ApplyManifests(t, "manifests/base") })
	results := map[string][]result{}
	var log *auditLog
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			if !f.short {
				framework.OnlyLong(t)
			}
			for i := range *runs {
				t.Run(strconv.Itoa(i+1), func(t *testing.T) {
					if r := f.run(t, shared); !t.Failed() {
						results[f.text] = append(results[f.text], r)
						if log == nil && !f.away && !f.network {
							log = r.log
						}
					}
				})
			}
		})
	}
	if log != nil {
		t.Run("forged record", log.requireForgedFound)
	}
	if framework.Long() {
		report(t, results)
	}
}

// result is what one run has shown.
type result struct {
	// versions of pods and bindings were checked.
	versions, bindings int
	// recovery is how long after the fault a pod was bound.
	recovery time.Duration
	// before and after are pods bound a second, of a batch.
	before, after float64
	// log is that of the run.
	log *auditLog
}

// run makes the fault happen once.
func (f fault) run(t *testing.T, shared *framework.Shared) result {
	t.Helper()
	s := newScene(t, shared.Use(t, nodesOf(f)), f)
	s.nodes = f.nodes
	var r result
	if framework.Long() {
		r.before = s.throughput("before")
	}
	if f.prepare != nil {
		f.prepare(s)
	}
	s.startChurn()
	s.letPodsCome(alive)
	over := f.happen(s)
	r.recovery = cmp.Or(s.recovery, s.recovered("probe", over))
	if s.stopChurn != nil {
		s.letPodsCome(alive)
		s.stopChurn()
	}
	s.requireRight()
	if framework.Long() {
		r.after = s.throughput("after")
	}
	r.versions, r.bindings, r.log = s.versions, s.bindings, s.log
	s.end()
	t.Logf("%s: recovered after %v; %.0f pods/s before and %.0f after; %d versions of pods with %d bindings checked; %d schedulers lost the lease, %d their cache",
		f.text, r.recovery.Round(time.Millisecond), r.before, r.after, r.versions, r.bindings, s.Lost, s.Corrupted)
	return r
}
