// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

// testHostileNeighbour: a round beside the hostile namespace measures the others' pods
// alone, while the API server answers writes of every kind there.
func (b *bench) testHostileNeighbour(t *testing.T) {
	seen := len(b.audit(t))
	for _, name := range []string{corev1.DefaultSchedulerName, names.Scheduler} {
		t.Run(name, func(t *testing.T) {
			rounds := b.rounds(t, "testdata/hostile.yaml", name)
			if len(rounds) != 2 || rounds[0].Phase != report.PhaseAsPlanned || rounds[1].Phase != report.PhaseHostile {
				t.Fatalf("the rounds are %+v, want one without and one beside the hostile namespace", rounds)
			}
			for _, round := range rounds {
				if unplaced := round.Metrics[report.Unplaced]; unplaced != 0 {
					t.Errorf("%s: %v pods of others are unplaced", round.Phase, unplaced)
				}
			}
			if _, wrote := rounds[0].Metrics[report.HostileWrites]; wrote {
				t.Error("the round without the hostile namespace has its writes")
			}
			if writes := rounds[1].Metrics[report.HostileWrites]; writes <= 0 || writes > 40 {
				t.Errorf("%v hostile writes a second, want up to 40", writes)
			}
			b.checkWaiting(t)
			events := b.audit(t)
			verbs := map[string]int{}
			for i := seen; i < len(events); i++ {
				if e := &events[i]; strings.HasPrefix(e.ObjectRef.Namespace, "hostile-") && e.ResponseStatus.Code < 300 {
					verbs[e.Verb+" "+on(e)]++
				}
			}
			seen = len(events)
			for _, want := range []string{"patch services", "patch pods", "create pods", "delete pods"} {
				if verbs[want] == 0 {
					t.Errorf("no %q in the hostile namespace: %v", want, verbs)
				}
			}
		})
	}
}

// checkWaiting: half of the waiting pods are in each namespace of the hostile owner, and
// no scheduler binds or misunderstands them.
func (b *bench) checkWaiting(t *testing.T) {
	t.Helper()
	for _, namespace := range []string{workload.HostileNamespace, workload.AccompliceNamespace} {
		pods, err := b.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		waiting := 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !strings.HasPrefix(pod.Name, "hostile-waiting-") || pod.Spec.NodeName != "" {
				continue
			}
			waiting++
			for _, condition := range pod.Status.Conditions {
				// What the scheduler does not understand is not the worst that it takes.
				message := condition.Message
				if namespace == workload.AccompliceNamespace { // whose author it tells whom to ask
					message = strings.ReplaceAll(message, "annotation "+names.AllowColocationFromAnnotation, "")
				}
				if strings.Contains(message, "annotation "+names.Prefix) {
					t.Errorf("pod %s is refused for what it says: %s", pod.Name, condition.Message)
				}
			}
		}
		if waiting != 5 {
			t.Errorf("%d pods wait in namespace %s, want 5", waiting, namespace)
		}
	}
}
