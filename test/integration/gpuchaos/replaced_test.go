// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// TestReplacedUnseen replaces a pod by another one of the same name while the
// scheduler's watch of pods is broken: it never sees the first one bound, nor gone.
func TestReplacedUnseen(t *testing.T) {
	c := startPool(t, 1, 1)
	var watchBroken atomic.Bool
	s := startBehind(t, c, gpuProfile, faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			if b.Nth == 1 && watchBroken.CompareAndSwap(false, true) {
				// Open watches end with the API server; new ones are refused.
				if err := c.KillComponent(localcluster.APIServer); err != nil {
					t.Error(err)
				}
				if err := c.RestartComponent(context.WithoutCancel(t.Context()), localcluster.APIServer); err != nil {
					t.Error(err)
				}
			}
			return passOn(b)
		},
		Drop: func(r *http.Request) bool { return watchBroken.Load() && r.URL.Path == "/api/v1/pods" },
	})
	c.CreatePod(t, gpuchurn.SharePod("pod", "800"))
	c.WaitForPodScheduled(t, namespace, "pod")
	s.WaitForOutput(t, framework.WaitTimeout, "Successfully bound pod to node")
	forceDelete(t, c, "pod")
	c.CreatePod(t, gpuchurn.SharePod("pod", "700"))
	watchBroken.Store(false)
	pod := c.WaitForPodScheduled(t, namespace, "pod")
	if got, want := pod.Annotations[names.GPUAssignedAnnotation], "main=0:700m:28672Mi"; got != want {
		t.Errorf("the second pod was given %q, want %q", got, want)
	}
	gpuchurn.RequireView(t, c, s, names.Scheduler)
}
