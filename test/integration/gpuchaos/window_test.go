// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
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

// faultyNetwork loses requests and answers of every kind at random while pods
// come for more devices than there are.
func faultyNetwork(t *testing.T) {
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
			faultproxy.PassOn(overtaken)
		}
		switch fault {
		case "answer lost":
			faultproxy.PassOn(b)
			return nil
		case "request lost", "arrives late":
			return nil
		case "gateway time-out after it was written":
			faultproxy.PassOn(b)
			return &faultproxy.Answer{Code: http.StatusGatewayTimeout}
		}
		return faultproxy.PassOn(b)
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
	requireMetric(t, s, "berth_gpudevice_bindings_unknown_total", 1)
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
