// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
	"github.com/berth-scheduler/berth/test/oracle"
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
		return passOn(b)
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
