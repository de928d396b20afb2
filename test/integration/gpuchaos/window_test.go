// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// startBehind starts berth-scheduler behind a proxy, without leader election.
func startBehind(t *testing.T, c *framework.Cluster, config string, hooks faultproxy.Hooks, args ...string) *framework.Scheduler {
	t.Helper()
	proxy := faultproxy.Start(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), hooks)
	return c.StartBerthScheduler(t, config, framework.SchedulerOptions{Kubeconfig: proxy.Kubeconfig, Args: args})
}

// passOn sends a Binding and returns the API server's answer.
func passOn(b *faultproxy.Binding) *faultproxy.Answer {
	answer, err := b.Send()
	if err != nil {
		return nil
	}
	return answer
}

// TestLostAnswers goes through the dangerous window step by step, on a cluster
// with one device: a Binding is written, or is not, and the scheduler is not told.
func TestLostAnswers(t *testing.T) {
	c := startPool(t, 1, 1)
	var mu sync.Mutex
	var late *faultproxy.Binding
	var getBroken atomic.Bool
	var unanswered atomic.Int64
	hooks := faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			kind, _, _ := strings.Cut(b.Pod, "-")
			switch {
			case kind == "written" && b.Nth > 1:
				t.Error("the Binding was sent again, and the API says that it was written")
			case kind == "written" && b.Nth == 1, kind == "unheard" && b.Nth == 1:
				passOn(b)
				getBroken.Store(kind == "unheard")
				return nil
			case kind == "edited" && b.Nth == 1:
				// Somebody changes the pod in the moment of its Binding.
				c.Kubectl(t, "label", "pod", b.Pod, "edited=true")
				answer := passOn(b)
				if answer == nil || answer.Code != http.StatusConflict {
					t.Errorf("the Binding for the former version was answered %+v, want a conflict", answer)
				}
				return answer
			case kind == "late" && b.Nth == 1:
				mu.Lock()
				defer mu.Unlock()
				late = b
				getBroken.Store(true)
				return nil
			case kind == "late" && b.Nth == 2:
				// The second one overtakes the first.
				answer := passOn(b)
				mu.Lock()
				defer mu.Unlock()
				if overtaken := passOn(late); overtaken == nil || overtaken.Code != http.StatusConflict {
					t.Errorf("the Binding that came too late was answered %+v, want a conflict", overtaken)
				}
				return answer
			case kind == "reborn" && b.Nth == 1:
				// The pod goes, another one comes by its name, and only then the Binding arrives.
				forceDelete(t, c, b.Pod)
				c.CreatePod(t, gpuchurn.SharePod(b.Pod, "300"))
				passOn(b)
				return nil
			}
			return passOn(b)
		},
		// While gets are broken, the scheduler cannot ask what became of the pod either.
		Drop: func(r *http.Request) bool {
			asks := getBroken.Load() && r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "metadata.name")
			if asks {
				unanswered.Add(1)
			}
			return asks
		},
	}
	s := startBehind(t, c, gpuProfile, hooks)

	t.Run("written", func(t *testing.T) {
		c.CreatePod(t, gpuchurn.SharePod("written", "600"))
		c.WaitForPodScheduled(t, namespace, "written")
		// Nobody else gets what may be allocated.
		c.CreatePod(t, gpuchurn.SharePod("second", "600"))
		c.WaitForPodUnschedulable(t, namespace, "second")
		requireMetric(t, s, "berth_gpudevice_bindings_unknown_total", 1)
		gpuchurn.RequireView(t, c, s, names.Scheduler)
		forceDelete(t, c, "written")
		c.WaitForPodScheduled(t, namespace, "second")
		forceDelete(t, c, "second")
	})
	t.Run("edited", func(t *testing.T) {
		c.CreatePod(t, gpuchurn.SharePod("edited", "600"))
		pod := c.WaitForPodScheduled(t, namespace, "edited")
		if pod.Labels["edited"] != "true" {
			t.Error("the pod was bound before it was edited: this shows nothing")
		}
		if condition := framework.PodScheduledCondition(pod); condition == nil || condition.Reason != "" {
			t.Errorf("the pod was failed in between: %+v", condition)
		}
		requireRight(t, c, s, 1)
		forceDelete(t, c, "edited")
	})
	t.Run("unheard", func(t *testing.T) {
		c.CreatePod(t, gpuchurn.SharePod("unheard", "600"))
		c.WaitForPodScheduled(t, namespace, "unheard")
		c.CreatePod(t, gpuchurn.SharePod("third", "600"))
		c.WaitForPodUnschedulable(t, namespace, "third")
		if unanswered.Load() == 0 {
			t.Error("the scheduler did not ask what became of the pod")
		}
		// It goes and comes back by the same name before the scheduler has learnt
		// what became of the first. The share is that of another pod then.
		forceDelete(t, c, "unheard")
		c.CreatePod(t, gpuchurn.SharePod("unheard", "400"))
		getBroken.Store(false)
		for _, name := range []string{"third", "unheard"} {
			c.WaitForPodScheduled(t, namespace, name)
		}
		requireRight(t, c, s, 2)
		forceDelete(t, c, "third")
		forceDelete(t, c, "unheard")
	})
	t.Run("late", func(t *testing.T) {
		unanswered.Store(0)
		c.CreatePod(t, gpuchurn.SharePod("late", "600"))
		framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler to ask what became of the pod", func() (bool, error) {
			return unanswered.Load() > 0, nil
		})
		// Nothing in the API says that the share is taken, and yet it may be at any
		// moment: the Binding is still on its way.
		c.CreatePod(t, gpuchurn.SharePod("fourth", "600"))
		c.WaitForPodUnschedulable(t, namespace, "fourth")
		forceDelete(t, c, "fourth")
		getBroken.Store(false)
		c.WaitForPodScheduled(t, namespace, "late")
		requireRight(t, c, s, 1)
		forceDelete(t, c, "late")
	})
	t.Run("reborn", func(t *testing.T) {
		c.CreatePod(t, gpuchurn.SharePod("reborn", "900"))
		pod := c.WaitForPodScheduled(t, namespace, "reborn")
		if got, want := pod.Annotations[names.GPUAssignedAnnotation], "main=0:300m:12288Mi"; got != want {
			t.Errorf("the second pod of the name was given %q, want %q", got, want)
		}
		requireRight(t, c, s, 1)
	})
}

// TestFaultyNetwork loses requests and answers of every kind at random while pods
// come for more devices than there are.
func TestFaultyNetwork(t *testing.T) {
	const nodes, devices, pods = 10, 4, 120
	c := startPool(t, nodes, devices)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(3, 0))
	faults := map[string]int{}
	late := map[string]*faultproxy.Binding{}
	s := startBehind(t, c, gpuProfile, faultproxy.Hooks{Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
		mu.Lock()
		fault := []string{"none", "answer lost", "request lost", "gateway time-out after it was written", "arrives late"}[rng.IntN(5)]
		overtaken := late[b.Pod]
		delete(late, b.Pod)
		if b.Nth > 3 {
			fault = "none"
		}
		if fault == "arrives late" {
			late[b.Pod] = b
		}
		faults[fault]++
		mu.Unlock()
		if overtaken != nil {
			passOn(overtaken)
		}
		switch fault {
		case "answer lost":
			passOn(b)
			return nil
		case "request lost", "arrives late":
			return nil
		case "gateway time-out after it was written":
			passOn(b)
			return &faultproxy.Answer{Code: http.StatusGatewayTimeout}
		}
		return passOn(b)
	}})
	for i := range pods {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("pod-%d", i), []string{"300", "500", "700"}[i%3]))
	}
	r, _ := gpuchurn.WaitSettled(t, c, -1)
	if len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	if r.Pending == 0 || r.Bound == 0 {
		t.Errorf("%d pods are bound and %d pending: the pods do not compete", r.Bound, r.Pending)
	}
	gpuchurn.RequireView(t, c, s, names.Scheduler)
	if n := metric(t, s, "berth_gpudevice_assignment_conflicts_total"); n != 0 {
		t.Errorf("%v conflicts are reported, and there are none", n)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d bound, %d pending, faults: %v", r.Bound, r.Pending, faults)
	if len(faults) != 5 {
		t.Errorf("not all faults happened: %v", faults)
	}
}
