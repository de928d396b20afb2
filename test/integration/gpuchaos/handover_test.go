// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// replica starts a berth-scheduler with leader election behind a proxy.
func replica(t *testing.T, c *framework.Cluster, hook func(*faultproxy.Binding) *faultproxy.Answer) *framework.Scheduler {
	t.Helper()
	return replicaBehind(t, c, faultproxy.Hooks{Binding: hook})
}

func replicaBehind(t *testing.T, c *framework.Cluster, hooks faultproxy.Hooks) *framework.Scheduler {
	t.Helper()
	proxy := faultproxy.Start(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), hooks)
	return c.LaunchScheduler(t, framework.Binary(t, framework.BerthScheduler), gpuProfile, framework.SchedulerOptions{
		Kubeconfig: proxy.Kubeconfig, LeaderElect: true, Args: gpuchurn.QuickElection(),
	})
}

func waitLeads(t *testing.T, s *framework.Scheduler) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the replica to lead", func() (bool, error) { return gpuchurn.Leads(s), nil })
}

// TestPreparedBeforeReady: a process that leads is not ready before it knows what others have
// placed, without any pod that asks; a standby is, and is not when it leads until it knows too.
func TestPreparedBeforeReady(t *testing.T) {
	const known = "Every pod with a share of a device is known"
	c := startPool(t, 1, 1)
	var down atomic.Bool
	hooks := faultproxy.Hooks{Binding: passOn, Drop: func(r *http.Request) bool {
		// That is how the plugin asks; the informers of pods ask for more.
		return down.Load() && r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("limit") == "1"
	}}
	becomesReady := func(s *framework.Scheduler) {
		t.Helper()
		waitLeads(t, s)
		framework.WaitForCondition(t, framework.WaitTimeout, "/readyz to say that the scheduler prepares", func() (bool, error) {
			err := s.Ready(t)
			return err != nil && strings.Contains(err.Error(), "learn what former ones have placed"), err
		})
		down.Store(false)
		s.WaitReady(t)
		if !strings.Contains(s.Output(), known) {
			t.Errorf("the scheduler is ready, and has not logged %q", known)
		}
	}
	down.Store(true)
	old := replicaBehind(t, c, hooks)
	becomesReady(old)
	next := replicaBehind(t, c, hooks)
	next.WaitForOutput(t, framework.WaitTimeout, "Standing by")
	next.WaitReady(t)
	if strings.Contains(next.Output(), known) {
		t.Errorf("a standby has logged %q: what the leader binds after it is not known", known)
	}
	down.Store(true)
	old.Kill()
	becomesReady(next)
	c.CreatePod(t, gpuchurn.SharePod("share", "1000"))
	c.WaitForPodScheduled(t, namespace, "share")
}

// TestHandover ends a leader while its Bindings are on their way, for every device that
// there is. The next leader gives all devices to other pods, and only then the Bindings
// arrive. They must be refused, whether the leader was killed or told to end.
func TestHandover(t *testing.T) {
	const nodes, devices = 4, 2
	c := startPool(t, nodes, devices)
	c.Apply(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: first}
value: 1000
preemptionPolicy: Never
`)
	for _, end := range []struct {
		name   string
		signal syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"told-to-end", syscall.SIGTERM}} {
		t.Run(end.name, func(t *testing.T) {
			var mu sync.Mutex
			var onTheirWay []*faultproxy.Binding
			old := replica(t, c, func(b *faultproxy.Binding) *faultproxy.Answer {
				mu.Lock()
				defer mu.Unlock()
				onTheirWay = append(onTheirWay, b)
				return nil
			})
			waitLeads(t, old)
			next := replica(t, c, passOn)
			next.WaitReady(t)
			for i := range nodes * devices {
				c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("%s-late-%d", end.name, i), "1000"))
			}
			framework.WaitForCondition(t, framework.WaitTimeout, "a Binding for each device", func() (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				pods := map[string]bool{}
				for _, b := range onTheirWay {
					pods[b.Pod] = true
				}
				return len(pods) == nodes*devices, fmt.Errorf("there are %d", len(pods))
			})
			for i := range nodes * devices {
				pod := gpuchurn.SharePod(fmt.Sprintf("%s-next-%d", end.name, i), "1000")
				pod.Spec.PriorityClassName = "first"
				c.CreatePod(t, pod)
			}
			old.Signal(end.signal)
			waitLeads(t, next)
			for i := range nodes * devices {
				c.WaitForPodScheduled(t, namespace, fmt.Sprintf("%s-next-%d", end.name, i))
			}
			mu.Lock()
			answers := map[int]int{}
			for _, b := range onTheirWay {
				if answer := passOn(b); answer != nil {
					answers[answer.Code]++
				}
			}
			total := len(onTheirWay)
			mu.Unlock()
			if answers[http.StatusConflict] != total {
				t.Errorf("%d Bindings of the former leader were answered %v, want all refused with %d", total, answers, http.StatusConflict)
			}
			r, _ := gpuchurn.WaitSettled(t, c, nodes*devices)
			if len(r.Violations) > 0 {
				t.Error(r.Violations)
			}
			// Nobody lost anything: those that waited get the devices when they are free.
			for i := range nodes * devices {
				forceDelete(t, c, fmt.Sprintf("%s-next-%d", end.name, i))
			}
			for i := range nodes * devices {
				c.WaitForPodScheduled(t, namespace, fmt.Sprintf("%s-late-%d", end.name, i))
			}
			requireRight(t, c, next, nodes*devices)
			for i := range nodes * devices {
				forceDelete(t, c, fmt.Sprintf("%s-late-%d", end.name, i))
			}
			next.Kill()
		})
	}
}

// TestLastBinding asks a leader to end while a Binding is on its way. The lease stays with
// it until the Binding is answered, and only then the next one leads.
func TestLastBinding(t *testing.T) {
	const slow = 2 * time.Second // of the network: longer than the next one takes to see a lease that is free
	c := startPool(t, 1, 1)
	election := []string{"--leader-elect-retry-period=500ms"} // the rest as it is: half of 10 s is the patience
	var next, old *framework.Scheduler
	onItsWay, answered := make(chan struct{}), make(chan struct{})
	var led bool
	var answer *faultproxy.Answer
	start := func(hook func(*faultproxy.Binding) *faultproxy.Answer) *framework.Scheduler {
		proxy := faultproxy.Start(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), faultproxy.Hooks{Binding: hook})
		return c.LaunchScheduler(t, framework.Binary(t, framework.BerthScheduler), gpuProfile, framework.SchedulerOptions{
			Kubeconfig: proxy.Kubeconfig, LeaderElect: true, Args: election,
		})
	}
	old = start(func(b *faultproxy.Binding) *faultproxy.Answer {
		if b.Nth > 1 {
			return passOn(b)
		}
		close(onItsWay)
		defer close(answered)
		<-time.After(slow)
		led, answer = gpuchurn.Leads(next), passOn(b)
		return answer
	})
	waitLeads(t, old)
	next = start(passOn)
	next.WaitReady(t)
	c.CreatePod(t, gpuchurn.SharePod("last", "500"))
	<-onItsWay
	old.Signal(syscall.SIGTERM)
	<-answered
	if led || answer == nil || answer.Code != http.StatusCreated {
		t.Errorf("another one led before the last Binding was sent: %t; it was answered %+v, want %d", led, answer, http.StatusCreated)
	}
	if code := old.Wait(t, framework.WaitTimeout); code != 0 {
		t.Errorf("the former leader ended with code %d", code)
	}
	waitLeads(t, next)
	c.CreatePod(t, gpuchurn.SharePod("next", "500"))
	requireRight(t, c, next, 2)
}

// TestHandovers lets two replicas take turns, killed or told to end, while pods with
// shares come and go and each Binding is delayed by a random time up to a minute.
func TestHandovers(t *testing.T) {
	framework.OnlyLong(t)
	const seed = 7
	const delay, turns = time.Minute, 12
	of := size{nodes: 20, devices: 4, pods: 3000, alive: 240, unseen: 120}
	c := startPool(t, of.nodes, of.devices)
	watch := gpuchurn.StartWatch(t, c)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	answers := map[int]int{}
	var onTheirWay sync.WaitGroup
	delayed := func(b *faultproxy.Binding) *faultproxy.Answer {
		onTheirWay.Add(1)
		defer onTheirWay.Done()
		<-time.After(time.Duration(random(int(delay)))) // the fault, not a wait for something
		answer := passOn(b)
		if answer != nil {
			mu.Lock()
			defer mu.Unlock()
			answers[answer.Code]++
		}
		return answer
	}
	running := []*framework.Scheduler{replica(t, c, delayed), replica(t, c, delayed)}
	ch := &gpuchurn.Churn{C: c, Watch: watch, Pods: of.pods, Alive: of.alive, Unseen: of.unseen, Seed: seed}
	ch.Limit.Store(math.MaxInt64)
	arrived := make(chan error, 1)
	go func() { arrived <- ch.Run(t.Context()) }()
	for turn := range turns {
		framework.WaitForCondition(t, 10*framework.WaitTimeout, fmt.Sprintf("turn %d of %d", turn, turns), func() (bool, error) {
			return ch.Arrivals() >= (turn+1)*of.pods/(turns+1) && slices.ContainsFunc(running, gpuchurn.Leads), nil
		})
		running = slices.DeleteFunc(running, func(s *framework.Scheduler) bool {
			if !gpuchurn.Leads(s) {
				return false
			}
			s.Signal([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[turn%2])
			return true
		})
		running = append(running, replica(t, c, delayed))
	}
	framework.WaitForCondition(t, 30*framework.WaitTimeout, "all pods to arrive", func() (bool, error) {
		select {
		case err := <-arrived:
			if err != nil {
				t.Fatal(err)
			}
			return true, nil
		default:
			return false, nil
		}
	})
	onTheirWay.Wait()
	r, pods := gpuchurn.WaitSettled(t, c, -1)
	history, versions, bindings := watch.History.Violations()
	if violations := slices.Concat(r.Violations, oracle.CheckLost(ch.Kept, pods), history); len(violations) > 0 {
		t.Error(violations)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d hand-overs with Bindings delayed up to %v; %d versions with %d bindings seen, Bindings answered %v; at the end %d bound, %d pending, %d devices allocated more than once",
		turns, delay, versions, bindings, answers, r.Bound, r.Pending, len(r.Violations.Of(oracle.Overcommitted)))
	if conflicts := warned(t, c, "GPUDeviceConflict"); len(conflicts) > 0 {
		t.Errorf("conflicts were reported: %v", conflicts)
	}
}
