// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// second is the name of the second Berth's profile, lease and GPU pool.
const second = "berth-second"

// startSecond starts a second Berth with a pool of its own, to which every other node belongs,
// and which every other pod is for.
func startSecond(s *scene) {
	content, err := os.ReadFile(filepath.Join(framework.Root(), gpuchurn.Profile))
	if err != nil {
		s.t.Fatal(err)
	}
	profile := strings.NewReplacer(
		"schedulerName: "+names.Scheduler, "schedulerName: "+second,
		"resourceName: "+names.Scheduler, "resourceName: "+second,
		"nonGPUPods: Avoid", "pool: "+second,
	).Replace(string(content))
	for node := range len(nodesOf(fault{nodes: s.nodes})) {
		s.setPool(node, node%2 == 0)
	}
	s.second = &gpuchurn.Replicas{
		C: s.c, Binary: s.Binary, Kubeconfig: s.c.Kubeconfig, Args: s.Args,
		Profile: write(s.t, filepath.Join(s.t.TempDir(), "second.yaml"), []byte(profile)),
	}
	s.await("the second Berth to have a leader", func() (bool, error) { return s.second.Leader() != nil, nil })
	s.pod = func(rng *rand.Rand, name string) *corev1.Pod {
		pod := gpuchurn.RandomPod(rng, name)
		if rng.IntN(2) == 0 && !s.alone.Load() {
			pod.Spec.SchedulerName = second
		}
		return pod
	}
}

// setPool has a node belong to the pool of the second Berth, or to that of the first.
func (s *scene) setPool(node int, ofSecond bool) {
	s.t.Helper()
	pool := "null"
	if ofSecond {
		pool = `"` + second + `"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, names.GPUPoolLabel, pool)
	if _, err := s.c.Client.CoreV1().Nodes().Patch(s.t.Context(), fmt.Sprintf("gpu-%d", node), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// poolsChange gives nodes to the other pool, at random and with the pods that they have, while
// pods for both come. In the end the first Berth has all of them.
func poolsChange(s *scene) time.Time {
	const every = 500 * time.Millisecond
	nodes := len(nodesOf(fault{nodes: s.nodes}))
	from := s.churn.Arrivals()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	s.await("pods to arrive beside nodes that change pools", func() (bool, error) {
		<-ticker.C
		s.setPool(rand.IntN(nodes), rand.IntN(2) == 0)
		return s.churn.Arrivals()-from >= faultyPods, nil
	})
	s.alone.Store(true)
	s.letPodsCome(unseen) // none that was drawn before is left
	s.await("no pod to wait for the second Berth", func() (bool, error) {
		list, err := s.c.Client.CoreV1().Pods(gpuchurn.Namespace).List(s.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=,spec.schedulerName=" + second})
		return err == nil && len(list.Items) == 0, err
	})
	for _, r := range s.second.Running() {
		r.Kill()
	}
	s.second = nil
	for node := range nodes {
		s.setPool(node, false)
	}
	return time.Now()
}
