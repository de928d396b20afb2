// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// rivalBindings has another scheduler bind pods, without devices, at the moment at which
// this one binds them. Its Binding comes first; ours is refused, and the node of the pod
// takes no share as long as nobody knows what it uses.
func rivalBindings(s *scene) time.Time {
	const pods = 8
	prefix := gpuchurn.Namespace + "/rival-"
	s.expected = func(v oracle.Violation) bool {
		return strings.HasPrefix(v.Object, prefix) && (v.Kind == oracle.Unrecorded || v.Kind == oracle.Torn || v.Kind == oracle.WrongNode)
	}
	var mu sync.Mutex
	bound := map[string]error{}
	s.hooks.Store(&faultproxy.Hooks{Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
		if strings.HasPrefix(b.Pod, "rival-") && b.Nth == 1 {
			err := s.c.Client.CoreV1().Pods(b.Namespace).Bind(s.t.Context(), &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Pod},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "gpu-0"},
			}, metav1.CreateOptions{})
			mu.Lock()
			bound[b.Pod] = err
			mu.Unlock()
		}
		return faultproxy.PassOn(b)
	}})
	s.createPods("rival", "500", pods)
	for i := range pods {
		name := fmt.Sprintf("rival-%d", i)
		pod := s.c.WaitForPodScheduled(s.t, gpuchurn.Namespace, name)
		var err error
		s.await("the answer to the rival's Binding", func() (answered bool, _ error) {
			mu.Lock()
			defer mu.Unlock()
			err, answered = bound[name]
			return answered, nil
		})
		if pod.Spec.NodeName != "gpu-0" || err != nil {
			s.t.Errorf("pod %s is on node %s, and the rival was answered %v: want it on gpu-0", name, pod.Spec.NodeName, err)
		}
	}
	s.letPodsCome(alive) // beside nodes that must take none
	over := time.Now()
	s.hooks.Store(nil)
	s.deletePods("rival")
	return over
}

// nodesGone deletes all nodes at once, and brings them back under the same names; their
// pods stay, as far as they are not deleted meanwhile.
func nodesGone(s *scene) time.Time {
	nodes := s.c.Client.CoreV1().Nodes()
	if err := nodes.DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await("the nodes to be gone", func() (bool, error) {
		list, err := nodes.List(s.t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
	s.letPodsCome(10)
	back := nodesOf(fault{nodes: s.nodes})
	failed := make(chan error, len(back))
	workqueue.ParallelizeUntil(s.t.Context(), workers, len(back), func(i int) {
		_, err := nodes.Create(s.t.Context(), &back[i], metav1.CreateOptions{})
		failed <- err
	})
	for range back {
		if err := <-failed; err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range back {
		s.c.WaitForNode(s.t, &back[i])
	}
	return time.Now()
}

// unschedulable puts pods for which no node has devices in front of one that fits: 20,000,
// or with a short run 300.
func unschedulable(s *scene) time.Time {
	pods := 300
	if framework.Long() {
		pods = 20_000
	}
	s.createPods("too-large", "9000", pods)
	s.recovery = s.recovered("behind", time.Now())
	s.deletePods("too-large")
	return time.Now()
}

// unwritablePod has a pod in the cluster that is so large that nothing can be written to it,
// not even its status, and kills the leader: the next one must do without that write.
func unwritablePod(s *scene) time.Time {
	const etcdTakes, step = 1536 << 10, 64
	pods := s.c.Client.CoreV1().Pods(gpuchurn.Namespace)
	large := gpuchurn.SharePod("unwritable", "50")
	large.Spec.NodeSelector = map[string]string{"example.com/no": "such-node"}
	for size := etcdTakes; ; size -= step {
		large.Spec.Containers[0].Args = []string{strings.Repeat("x", size)}
		_, err := pods.Create(s.t.Context(), large, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "request is too large") {
			s.t.Fatal(err)
		}
	}
	killed := killScheduler(s)
	s.recovery = s.recovered("after-kill", killed)
	s.letPodsCome(alive)
	leader := s.awaitLeader()
	s.await("the leader to be ready", func() (bool, error) { err := leader.Ready(s.t); return err == nil, err })
	if _, err := pods.Patch(s.t.Context(), large.Name, types.MergePatchType, []byte(`{"status":{"message":"`+strings.Repeat("x", step)+`"}}`), metav1.PatchOptions{}, "status"); err == nil {
		s.t.Error("the pod can be written to: this shows nothing")
	}
	// The API server cannot delete it either: it writes the time first.
	s.etcdTool("etcdctl", "del", "/registry/pods/"+gpuchurn.Namespace+"/"+large.Name)
	return time.Now()
}

// flappingDevices changes what nodes say about their devices, and back, while pods come: how
// many there are, whether they are shared, and whether a device plugin advertises them too.
func flappingDevices(s *scene) time.Time {
	flaps := []struct{ bad, good, subresource string }{
		{bad: `{"metadata":{"labels":{"nvidia.com/gpu.count":"3"}}}`, good: `{"metadata":{"labels":{"nvidia.com/gpu.count":"4"}}}`},
		{bad: `{"metadata":{"labels":{"nvidia.com/gpu.count":null}}}`, good: `{"metadata":{"labels":{"nvidia.com/gpu.count":"4"}}}`},
		{bad: `{"metadata":{"labels":{"nvidia.com/gpu.memory":null}}}`, good: `{"metadata":{"labels":{"nvidia.com/gpu.memory":"40960"}}}`},
		{bad: `{"metadata":{"labels":{"` + names.GPUSharingLabel + `":null}}}`, good: `{"metadata":{"labels":{"` + names.GPUSharingLabel + `":"true"}}}`},
		{bad: `{"status":{"capacity":{"nvidia.com/gpu":"4"}}}`, good: `{"status":{"capacity":{"nvidia.com/gpu":null}}}`, subresource: "status"},
	}
	flapped := map[string]int{}
	flap := func(node, way int) {
		name := fmt.Sprintf("gpu-%d", node)
		_, isBad := flapped[name]
		patch := flaps[way].bad
		if isBad {
			way = flapped[name]
			patch = flaps[way].good
			delete(flapped, name)
		} else {
			flapped[name] = way
		}
		var subresources []string
		if sub := flaps[way].subresource; sub != "" {
			subresources = []string{sub}
		}
		if _, err := s.c.Client.CoreV1().Nodes().Patch(s.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
			s.t.Fatal(err)
		}
	}
	from := s.churn.Arrivals()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	nodes := len(nodesOf(fault{nodes: s.nodes}))
	s.await("pods to arrive beside flapping nodes", func() (bool, error) {
		<-ticker.C
		flap(rand.IntN(nodes), rand.IntN(len(flaps)))
		return s.churn.Arrivals()-from >= faultyPods, nil
	})
	for node := range nodes {
		if _, isBad := flapped[fmt.Sprintf("gpu-%d", node)]; isBad {
			flap(node, 0)
		}
	}
	return time.Now()
}
