// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// TestEndedInMidCycle ends a pending pod between the start of its scheduling cycle
// and Reserve. The API server would bind it nevertheless, and the scheduler's watch,
// which leaves ended pods out, would never show it: no devices may be reserved for it.
func TestEndedInMidCycle(t *testing.T) {
	c := startPool(t, 1, 1)
	var s atomic.Pointer[framework.Scheduler]
	var held atomic.Bool
	// An extender is asked in the cycle, after the plugins' filters.
	extender := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		if held.CompareAndSwap(false, true) {
			_, err := c.Client.CoreV1().Pods(namespace).Patch(t.Context(), "ending", types.MergePatchType,
				[]byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
			if err != nil {
				t.Error(err)
			}
			s.Load().WaitForOutput(t, framework.WaitTimeout, "Delete event for unscheduled pod")
		}
		if err := json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(extender.Close)
	profile, err := os.ReadFile(filepath.Join(framework.Root(), gpuProfile))
	if err != nil {
		t.Fatal(err)
	}
	extended := filepath.Join(t.TempDir(), "extended.yaml")
	profile = fmt.Appendf(profile, "extenders: [{urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true, httpTimeout: 1m}]\n", extender.URL)
	if err := os.WriteFile(extended, profile, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Store(startBehind(t, c, extended, faultproxy.Hooks{Binding: passOn}, "-v=3")) // tells of the events of pods
	c.CreatePod(t, gpuchurn.SharePod("ending", "700"))
	framework.WaitForCondition(t, framework.WaitTimeout, "the first scheduling cycle", func() (bool, error) { return held.Load(), nil })
	c.CreatePod(t, gpuchurn.SharePod("next", "1000"))
	c.WaitForPodScheduled(t, namespace, "next")
	gpuchurn.RequireView(t, c, s.Load(), names.Scheduler)
	ended, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), "ending", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ended.Spec.NodeName != "" || ended.Status.Phase != corev1.PodFailed {
		t.Errorf("the pod that had failed is %s and on node %q", ended.Status.Phase, ended.Spec.NodeName)
	}
}
