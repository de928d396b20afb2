// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

const (
	// devices of each node.
	devices = 4
	// alive is how many pods are there at a time, and pace how often one arrives: well below
	// what the nodes have room for, and what the scheduler can do.
	alive = 40
	pace  = 50 * time.Millisecond
	// unseen is how many pods may wait for their first attempt.
	unseen = 30
	// batchPods are created at once to measure throughput, batches times.
	batchPods, batches = 100, 5
	// workers send requests side by side.
	workers = 8
	// patience is for what takes longest, on a busy machine.
	patience = 10 * framework.WaitTimeout
)

// scene is what a fault has to work with: a control plane, two schedulers, of which one
// leads, and pods with shares that arrive and leave.
type scene struct {
	t *testing.T
	c *framework.Cluster
	*gpuchurn.Replicas

	// hooks are what the network between schedulers and API server does; nil for nothing.
	hooks atomic.Pointer[faultproxy.Hooks]
	// nodes is how many there are.
	nodes int
	// recovery is what a fault has measured itself; 0 leaves it to the matrix.
	recovery time.Duration
	// clock is the file that shifts the schedulers' clock, and token the one with what they
	// identify themselves by.
	clock, token string
	// relays are what each of All reaches the API server through.
	relays []*relay
	// second is another Berth in the same cluster; nil for none.
	second *gpuchurn.Replicas
	// alone is whether pods come for the first one alone.
	alone atomic.Bool
	// pod draws the pods that arrive. Default: gpuchurn.RandomPod.
	pod func(*rand.Rand, string) *corev1.Pod
	// expected are violations that the fault itself makes.
	expected func(oracle.Violation) bool

	// log is what the API servers have written down, and away whether one was away for a while
	// or was read from beside: it does not show everything then.
	log  *auditLog
	away bool

	watch     *gpuchurn.Watch
	churn     *gpuchurn.Churn
	stopChurn func()
	// kept are the UIDs of the pods that must be there in the end.
	kept map[string]string
	// versions of pods and bindings were checked, earlier those of the log before this one.
	versions, bindings int
	earlier            struct{ versions, bindings int }
}

// newScene starts the schedulers, and returns when one of them leads.
func newScene(t *testing.T, c *framework.Cluster, f fault) *scene {
	t.Helper()
	s := &scene{t: t, c: c, away: f.away, kept: map[string]string{}, clock: filepath.Join(t.TempDir(), "clock"), token: filepath.Join(t.TempDir(), "token")}
	kubeconfig := c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler)
	if f.network {
		kubeconfig = faultproxy.Start(t, kubeconfig, s.network()).Kubeconfig
	}
	s.Replicas = &gpuchurn.Replicas{C: c, Binary: framework.Binary(t, framework.BerthScheduler), Kubeconfig: kubeconfig}
	if f.relayed {
		s.NextKubeconfig = func() string {
			r, through := relayed(t, kubeconfig)
			s.relays = append(s.relays, r)
			return through
		}
	}
	if f.token {
		s.Kubeconfig = s.tokenFile(kubeconfig)
	}
	if f.shifted {
		write(t, s.clock, []byte("0"))
		t.Setenv(clockVariable, s.clock)
		s.Binary = buildShifted(t)
	}
	if !framework.Long() {
		s.Args = gpuchurn.QuickElection()
	}
	s.startLog()
	s.watch = gpuchurn.StartWatch(t, c)
	t.Cleanup(func() {
		s.end()
		for i, r := range s.All {
			if t.Failed() {
				if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("scheduler-%d.log", i)), []byte(r.Output()), 0o600); err != nil {
					t.Log(err)
				}
			}
		}
	})
	s.awaitLeader()
	return s
}

// end stops what the scene has started.
func (s *scene) end() {
	if s.stopChurn != nil {
		s.stopChurn()
	}
	all := s.All
	if s.second != nil {
		all = slices.Concat(all, s.second.All)
	}
	for _, r := range all {
		r.Kill()
	}
}

// network asks what the hooks of the moment say.
func (s *scene) network() faultproxy.Hooks {
	none := &faultproxy.Hooks{}
	now := func() *faultproxy.Hooks {
		if hooks := s.hooks.Load(); hooks != nil {
			return hooks
		}
		return none
	}
	return faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			if hook := now().Binding; hook != nil {
				return hook(b)
			}
			return faultproxy.PassOn(b)
		},
		Drop: func(r *http.Request) bool { hook := now().Drop; return hook != nil && hook(r) },
		Lose: func(r *http.Request) bool { hook := now().Lose; return hook != nil && hook(r) },
		Answer: func(r *http.Request) *faultproxy.Answer {
			if hook := now().Answer; hook != nil {
				return hook(r)
			}
			return nil
		},
		Server: func() *url.URL {
			if hook := now().Server; hook != nil {
				return hook()
			}
			return nil
		},
	}
}

// await waits for a condition, and starts schedulers anew that have ended meanwhile.
func (s *scene) await(description string, condition func() (bool, error)) {
	s.t.Helper()
	framework.WaitForCondition(s.t, patience, description, func() (bool, error) {
		s.Fill(s.t)
		if s.second != nil {
			s.second.Fill(s.t)
		}
		return condition()
	})
}

// relayOf is what a scheduler reaches the API server through.
func (s *scene) relayOf(r *framework.Scheduler) *relay { return s.relays[slices.Index(s.All, r)] }

// awaitLeader returns the scheduler that leads.
func (s *scene) awaitLeader() *framework.Scheduler {
	s.t.Helper()
	s.await("a leader", func() (bool, error) { return s.Leader() != nil, nil })
	return s.Leader()
}

// startChurn lets pods arrive and leave until stopChurn is called.
func (s *scene) startChurn() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.churn = &gpuchurn.Churn{C: s.c, Watch: s.watch, Pods: 1 << 30, Alive: alive, Unseen: unseen, Seed: rand.Uint64(), Pod: s.pod}
	ended := make(chan error, 1)
	go func() { ended <- s.churn.Run(ctx) }()
	go func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			s.churn.Limit.Add(1)
		}
	}()
	s.stopChurn = func() {
		defer cancel()
		s.stopChurn = nil
		s.churn.Limit.Store(math.MinInt64)
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Error(err)
		}
		s.kept = s.churn.Kept
	}
}

// letPodsCome returns when so many more pods have arrived.
func (s *scene) letPodsCome(n int) {
	s.t.Helper()
	from := s.churn.Arrivals()
	s.churn.Limit.Store(int64(from)) // those that could not come before do not come all at once
	s.await(fmt.Sprintf("%d pods to arrive", n), func() (bool, error) {
		got := s.churn.Arrivals() - from
		return got >= n, fmt.Errorf("%d have", got)
	})
}

// recovered creates a pod and returns how long after that moment it is bound.
func (s *scene) recovered(name string, since time.Time) time.Duration {
	s.t.Helper()
	pod := gpuchurn.SharePod(name, "50")
	pods := s.c.Client.CoreV1().Pods(gpuchurn.Namespace)
	if err := gpuchurn.Insist(s.t.Context(), func() error {
		_, err := pods.Create(s.t.Context(), pod, metav1.CreateOptions{})
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	s.await("the first pod after the fault to be bound", func() (bool, error) {
		got, err := pods.Get(s.t.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && got.Spec.NodeName != "", err
	})
	return time.Since(since)
}

// createPods creates pods with a label, n at once.
func (s *scene) createPods(label, milli string, n int) {
	s.t.Helper()
	failed := make(chan error, n)
	workqueue.ParallelizeUntil(s.t.Context(), workers, n, func(i int) {
		pod := gpuchurn.SharePod(fmt.Sprintf("%s-%d", label, i), milli)
		pod.Labels = map[string]string{"part": label}
		_, err := s.c.Client.CoreV1().Pods(gpuchurn.Namespace).Create(s.t.Context(), pod, metav1.CreateOptions{})
		failed <- err
	})
	for range n {
		if err := <-failed; err != nil {
			s.t.Fatal(err)
		}
	}
}

// deletePods deletes the pods with a label, and returns when they are gone.
func (s *scene) deletePods(label string) {
	s.t.Helper()
	pods := s.c.Client.CoreV1().Pods(gpuchurn.Namespace)
	selector := metav1.ListOptions{LabelSelector: "part=" + label}
	s.await("the pods "+label+" to be gone", func() (bool, error) {
		// Of many at once it takes longer than a request may.
		if err := pods.DeleteCollection(s.t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, selector); err != nil {
			return false, err
		}
		list, err := pods.List(s.t.Context(), selector)
		return err == nil && len(list.Items) == 0, err
	})
}

// deleteAll deletes all pods, and returns when they are gone.
func (s *scene) deleteAll() {
	s.t.Helper()
	pods := s.c.Client.CoreV1().Pods(gpuchurn.Namespace)
	if err := pods.DeleteCollection(s.t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await("all pods to be gone", func() (bool, error) {
		list, err := pods.List(s.t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}

// throughput returns how many pods a second were bound of a batch that came at once, the
// median of some batches.
func (s *scene) throughput(label string) float64 {
	s.t.Helper()
	var rates []float64
	for i := range batches {
		label := fmt.Sprintf("%s-%d", label, i)
		_, before := s.watch.Counts()
		start := time.Now()
		s.createPods(label, "100", batchPods)
		s.await("a batch of pods to be bound", func() (bool, error) {
			_, bound := s.watch.Counts()
			return bound-before >= batchPods, fmt.Errorf("%d are", bound-before)
		})
		rates = append(rates, batchPods/time.Since(start).Seconds())
		s.deletePods(label)
	}
	return median(rates)
}

// requireRight waits until all pods have a node or a reason, and fails if a device was ever
// given twice, a pod is lost, or the leader counts otherwise than the API does.
func (s *scene) requireRight() {
	s.t.Helper()
	settled, pods := gpuchurn.WaitSettled(s.t, s.c, -1)
	s.requireHistory(slices.Concat(settled.Violations, oracle.CheckLost(s.kept, pods)))
	leader := s.awaitLeader()
	gpuchurn.RequireView(s.t, s.c, leader, names.Scheduler)
	conflicts, err := s.c.Client.CoreV1().Events(gpuchurn.Namespace).List(s.t.Context(), metav1.ListOptions{FieldSelector: "reason=GPUDeviceConflict"})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range conflicts.Items {
		s.t.Errorf("a conflict was reported: %s", conflicts.Items[i].Message)
	}
}

// listKept takes the pods that there are for those that must be there in the end.
func (s *scene) listKept() {
	s.t.Helper()
	s.kept = map[string]string{}
	list, err := s.c.Client.CoreV1().Pods(gpuchurn.Namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		s.kept[gpuchurn.Namespace+"/"+list.Items[i].Name] = string(list.Items[i].UID)
	}
}

// says reports whether a scheduler has written one of the texts.
func says(s *framework.Scheduler, texts ...string) bool {
	output := s.Output()
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(output, text) })
}

// nodesOf are the nodes of a fault.
func nodesOf(f fault) []corev1.Node {
	n := 20
	if f.nodes > 0 {
		n = f.nodes
	}
	return gpuchurn.Nodes(n, devices)
}
