// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

// untold is a Progress that nobody looks at.
type untold struct{}

func (untold) Step(string)   {}
func (untold) Pods(int, int) {}

func (untold) Rounds(int, int) {}

// idle is a scheduler that does nothing.
type idle struct{ schedulers.Running }

func (idle) Failed() <-chan error { return nil }

// TestTimeout: a round whose time is over while pods are still to come ends with
// nothing under way (with -race: what was written down can be read), and pods that
// were never sent are not late.
func TestTimeout(t *testing.T) {
	// An API server that never answers.
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// Only who has read all of a request is told that its client has gone.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, name := range []string{"now", "later"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}})
	}
	r := &round{
		Experiment: &Experiment{options: Options{RoundTimeout: 100 * time.Millisecond, Progress: untold{}}},
		plan:       &workload.Plan{},
		creator:    &creator{client: client, pods: pods, at: []time.Duration{0, time.Hour}},
		deleter:    &deleter{client: client, pods: pods},
		recorder:   newRecorder([]string{"now", "later"}),
		running:    idle{},
	}
	if err := r.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !r.timedOut {
		t.Error("the round has settled")
	}
	if !r.creator.sent[1].IsZero() {
		t.Error("a pod was sent before its time")
	}
	if late := r.creator.lateness(r.start); late > time.Minute {
		t.Errorf("%v late", late)
	}
}
