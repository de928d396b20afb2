// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
)

// TestRateLimitIsNoDoubt: a Binding that the client's own limit kept back has
// certainly not happened, unless an earlier attempt of the same request got out.
func TestRateLimitIsNoDoubt(t *testing.T) {
	tests := []struct {
		name string
		// burst is how many requests go out before the limit, which is far
		// longer than bindTimeout.
		burst  int
		answer func(w http.ResponseWriter)
		// want are the outcomes of Bindings one after the other.
		want []bindOutcome
		// sent is how many requests arrive.
		sent int64
	}{
		{
			name:   "never let through",
			burst:  1,
			answer: func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) },
			want:   []bindOutcome{bindDone, bindRefused},
			sent:   1,
		},
		{
			name:  "let through, and limited when it was to be repeated",
			burst: 1,
			answer: func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusGatewayTimeout)
			},
			want: []bindOutcome{bindInDoubt, bindRefused},
			sent: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				sent.Add(1)
				tt.answer(w)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: 0.001, Burst: tt.burst}
			limit(config)
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			b := New(client, events.NewFakeRecorder(1), DefaultOptions(), NewRand(testSeed))
			t.Cleanup(b.queue.ShutDown)
			for i, want := range tt.want {
				got, _, err := b.bind(ctx, choice{pod: pendingPodObject("p"), node: "n"})
				if got != want {
					t.Errorf("Binding %d: %s (%v), want %s", i, got, err, want)
				}
			}
			if got := sent.Load(); got != tt.sent {
				t.Errorf("%d requests were sent, want %d", got, tt.sent)
			}
		})
	}
}

func TestLimitLeavesNoLimit(t *testing.T) {
	tests := []struct {
		name   string
		config rest.Config
		want   bool
	}{
		{"client-go's default", rest.Config{}, true},
		{"a rate", rest.Config{QPS: 50, Burst: 100}, true},
		{"none", rest.Config{QPS: -1}, false},
		{"a rate without a burst, which client-go refuses", rest.Config{QPS: 50}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := tt.config
			limit(&config)
			if got := config.RateLimiter != nil; got != tt.want {
				t.Errorf("has a limiter: %v, want %v", got, tt.want)
			}
		})
	}
}
