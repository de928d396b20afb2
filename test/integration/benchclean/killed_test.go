// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	kubectlBerth = "kubectl-berth"
	workload     = "test/integration/benchclean/testdata/killed.yaml"
	// Each of so many clusters sees so many kills: ten together.
	clusters, working, closing = 2, 4, 1
)

// TestKilled kills the benchmark at ten moments: eight spread by chance over its work,
// from its first breath on, and two over the time in which it removes what it has
// created. After each, and "bench clean", the cluster holds what it held before. So it
// does after a benchmark that ends by itself.
func TestKilled(t *testing.T) {
	t.Parallel()
	for i := range clusters {
		t.Run(fmt.Sprintf("cluster %d", i), func(t *testing.T) {
			t.Parallel()
			killRepeatedly(t)
		})
	}
}

func killRepeatedly(t *testing.T) {
	c, before := start(t)
	bench := func() *framework.Process {
		return framework.StartProcess(t, kubectlBerth, "bench", "-f", workload, "--kubeconfig", c.Kubeconfig,
			"--schedulers", "default-scheduler", "--rounds", "1", "--steady-rounds", "0")
	}
	clean := func() string {
		process := framework.StartProcess(t, kubectlBerth, "bench", "clean", "--kubeconfig", c.Kubeconfig)
		if code := process.Wait(t, framework.WaitTimeout); code != 0 {
			t.Errorf("bench clean ended with %d", code)
		}
		return strings.TrimSpace(process.Output())
	}

	began := time.Now()
	whole := bench()
	whole.WaitForOutput(t, framework.WaitTimeout, "removing what run")
	work := time.Since(began)
	if code := whole.Wait(t, framework.WaitTimeout); code != 0 {
		t.Fatalf("the benchmark ended with %d", code)
	}
	end := time.Since(began)
	compare(t, c, before, "after a benchmark that ended")

	seed := rand.Uint64()
	t.Logf("a benchmark works for %v and ends after %v; the moments come from seed %d", work.Round(time.Millisecond), end.Round(time.Millisecond), seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var moments []time.Duration
	for i := range working {
		moments = append(moments, time.Duration((float64(i)+random.Float64())/working*float64(work)))
	}
	for range closing {
		moments = append(moments, work+time.Duration(random.Float64()*float64(end-work)))
	}
	found := 0
	for _, moment := range moments {
		process := bench()
		select {
		case <-process.Done(): // faster this time
		case <-time.After(moment):
		}
		process.Kill()
		said := clean()
		t.Logf("killed after %v, then bench clean says: %s", moment.Round(time.Millisecond), said)
		if strings.Contains(said, "removed from the cluster") {
			found++
		}
		compare(t, c, before, fmt.Sprintf("after a benchmark that was killed after %v", moment))
	}
	// One that found nothing to do would leave the cluster as it was, too.
	if found < len(moments)/2 {
		t.Errorf("bench clean has removed something after %d of %d kills, want most", found, len(moments))
	}
	if said := clean(); !strings.Contains(said, "nothing removed") {
		t.Errorf("bench clean of a clean cluster says %q", said)
	}
	compare(t, c, before, "at the end")
}
