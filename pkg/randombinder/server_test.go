// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
)

func TestAddressInUseIsAnErrorAtStart(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	healthy := func(*http.Request) error { return nil }
	options := DefaultOptions()
	port := taken.Addr().(*net.TCPAddr).Port
	options.SecureServing.BindPort = port
	err = serve(t.Context(), options, newMetrics(func() (int, int) { return 0, 0 }).gatherer(), healthy, healthy)
	if want := fmt.Sprintf("--secure-port=%d", port); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one that contains %s", err, want)
	}
}

func TestReadiness(t *testing.T) {
	b := New(fake.NewClientset(), events.NewFakeRecorder(1), DefaultOptions(), NewRand(testSeed))
	ask := func() int {
		answer := httptest.NewRecorder()
		handler(b.ready).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		return answer.Code
	}
	steps := []struct {
		name   string
		change func()
		want   int
	}{
		{"rights not checked yet", func() {}, http.StatusServiceUnavailable},
		{"a standby", func() { b.checked.Store(true) }, http.StatusOK},
		{"a leader that still lists", func() { b.running.Store(true) }, http.StatusServiceUnavailable},
		{"a leader that binds", func() { b.synced.Store(true) }, http.StatusOK},
	}
	for _, step := range steps {
		step.change()
		if got := ask(); got != step.want {
			t.Errorf("%s: /readyz answers %d, want %d", step.name, got, step.want)
		}
	}
}

func TestHealthCheckSaysWhatIsWrong(t *testing.T) {
	answer := httptest.NewRecorder()
	handler(func(*http.Request) error { return errors.New("lease not renewed") }).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "lease not renewed") {
		t.Errorf("answer is %d %q", answer.Code, answer.Body)
	}
}
